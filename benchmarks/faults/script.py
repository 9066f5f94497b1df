"""A training script in the pieces that a person writes; whoever breaks one replaces a piece and nothing else."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol
from zlib import crc32

import numpy as np

#: A model, an optimizer, a tensor, of whichever framework; hence Any.
Model = Any
Batch = tuple[Any, ...]


class Watcher(Protocol):
    """What looks at a training: mindscope's monitor, or another tool."""

    def log(self, scalars: Mapping[str, float], /) -> None:
        """Nothing; numbers that only the script knows."""

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing; a step is over."""

    def close(self, error: BaseException | None = None) -> None:
        """Nothing; the training is over."""


Watch = Callable[["Script"], Watcher]


class Script:
    """One training, from the seed to the last step.

    A subclass says how the model, the optimizer and the batches are made. Whoever breaks it assigns to the instance:
    `script.loss = ...`, `script.after_build(...)`, `script.at(step, ...)`.

    Attributes:
        config: What a user of such a model would say to the monitor; empty for its defaults.
        steps: Optimizer steps in the run.
        evaluates_every: Steps between two evaluations on held-out data; 0 for none.
        pick: Where faults draw their site and their onset from: differs by seed and by fault, never touches the data.
    """

    config: ClassVar[Mapping[str, Any]] = {}
    framework: ClassVar[str] = "torch"
    #: Processes that train together.
    world: ClassVar[int] = 1
    steps = 60
    evaluates_every = 0

    def __init__(self, seed: int, *, case: str = "", rank: int = 0) -> None:
        self.seed, self.rank, self.name = seed, rank, case
        self.pick = np.random.default_rng((seed, crc32(case.encode())))
        self.declared: dict[str, Any] = dict(self.config)
        self.step = 0
        self.watcher: Watcher | None = None
        self.model: Model = None
        self.optimizer: Any = None
        self.schedule: Any = None
        self.batches: Iterator[Batch] = iter(())
        self._changes: list[Callable[[Model], object]] = []
        self._moments: dict[int, list[Callable[[], object]]] = {}

    # --- the pieces -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Nothing; seeds what is random in this framework."""
        raise NotImplementedError

    def build(self) -> Model:
        """The model with its first weights."""
        raise NotImplementedError

    def make_optimizer(self, model: Model) -> Any:
        """What steps the weights."""
        raise NotImplementedError

    def make_schedule(self, optimizer: Any) -> Any:
        """What moves the rate after every step; None for a constant one."""
        return None

    def make_batches(self) -> Iterator[Batch]:
        """Endless batches of arrays, in the order that the seed says."""
        raise NotImplementedError

    def loss(self, model: Model, *batch: Any) -> Any:
        """The scalar from which the backward pass starts."""
        raise NotImplementedError

    def update(self, loss: Any) -> None:
        """Nothing; gradients, and one step with them."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def advance(self) -> None:
        """Nothing; the schedule moves on."""
        if self.schedule is not None:
            self.schedule.step()

    def evaluate(self) -> dict[str, float]:
        """What the script logs of held-out data."""
        return {}

    def train_step(self) -> float:
        """The loss of one more step."""
        loss = self.loss(self.model, *self.tensors(next(self.batches)))
        self.update(loss)
        self.advance()
        return self.number(loss)

    def tensors(self, batch: Batch) -> Batch:
        """The same batch as tensors of the framework."""
        raise NotImplementedError

    def number(self, loss: Any) -> float:
        """The loss as Python's own number."""
        return float(loss)

    # --- what a fault is made with ----------------------------------------------------------------------------

    def after_build(self, change: Callable[[Model], object]) -> None:
        """Nothing; the model is changed before its optimizer is made."""
        self._changes.append(change)

    def at(self, step: int, act: Callable[[], object]) -> None:
        """Nothing; something happens right before that step."""
        self._moments.setdefault(step, []).append(act)

    def some_step(self, low: float = 0.3, high: float = 0.6) -> int:
        """A step between these shares of the run, drawn by the seed."""
        return int(self.pick.integers(int(low * self.steps), int(high * self.steps)))

    def one_of(self, *sites: str) -> str:
        """One of the sites, drawn by the seed."""
        return str(self.pick.choice(np.array(sites)))

    # --- the loop ---------------------------------------------------------------------------------------------

    def train(self, watch: Watch) -> None:
        """Nothing; the whole training, under the eyes of the watcher."""
        self.begin()
        self.model = self.build()
        for change in self._changes:
            change(self.model)
        self.optimizer = self.make_optimizer(self.model)
        self.schedule = self.make_schedule(self.optimizer)
        self.batches = self.make_batches()
        self.watcher = watch(self)
        try:
            for step in range(self.steps):
                self.step = step
                for act in self._moments.get(step, ()):
                    act()
                self._one_step(self.watcher)
        except BaseException as error:
            self.watcher.close(error)
            raise
        self.watcher.close()

    def _one_step(self, watcher: Watcher) -> None:
        loss = self.train_step()
        if self.evaluates_every and (self.step + 1) % self.evaluates_every == 0:
            watcher.log(self.evaluate())
        watcher.step_ends(self.step, loss)
