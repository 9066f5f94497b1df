"""Every training here runs twice, alone and watched, and must come out the same to the bit."""

import runpy
import traceback
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mindscope.insight import diagnose
from mindscope.probe import Monitor, watch
from mindscope.storage import Event, Run, StepRecord, Store, open_store
from mindscope.watching import run_script

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch import torch_facts  # noqa: E402  torch is there
from mindscope.probe.adapters.torch import torch_parameters as torch_view  # noqa: E402
from mindscope.probe.adapters.torch import torch_ranks as torch_rank_numbers  # noqa: E402
from mindscope.probe.adapters.torch import torch_tensors as torch_memory  # noqa: E402
from mindscope.probe.adapters.torch import torch_tensors as torch_parts  # noqa: E402

Watching = Callable[..., AbstractContextManager[Any]]
#: A training gets `watching(model, optimizer)`, trains inside of it, and returns its losses and what it has trained.
Training = Callable[[Watching], tuple[list[float], Any]]


@dataclass
class Seen:
    """What the monitors of one training have recorded."""

    store: Store
    losses: list[float]
    monitors: list[Monitor] = field(default_factory=list)

    @property
    def run(self) -> str:
        return self.monitors[0].run.id

    def values(self, site: str, metric: str, run: str = "", **options: Any) -> Any:
        return self.store.series(run or self.run, site, metric, **options).values

    def records(self) -> list[StepRecord]:
        return list(self.store.replay(self.run))

    def events(self, kind: str) -> tuple[Event, ...]:
        return self.store.events(self.run, kind=kind)

    def calls(self, site: str, step: int = 0, subject: str = "activation") -> int:
        """How many calls of the site are in this step's records."""
        blocks = [b for r in self.records() if r.step == step for b in r.blocks if b.layout.subject == subject]
        return sum(
            one == site and (block.present is None or bool(block.present[row]))
            for block in blocks
            for row, one in enumerate(block.layout.sites)
        )

    def faults(self) -> list[Any]:
        return [event.data for event in self.events("monitor_fault")]


@dataclass
class Told:
    """What a training that was watched once has told."""

    store: Store
    run: str

    @property
    def checks(self) -> dict[str, Any]:
        """The data of the last event of each check."""
        return {str(event.data["check"]): event.data for event in self.store.events(self.run, kind="check")}

    @property
    def outcomes(self) -> dict[tuple[Any, Any], Any]:
        """The outcome of each check and subject at the last occasion."""
        events = self.store.events(self.run, kind="check")
        return {(event.data["check"], event.data["subject"]): event.data["outcome"] for event in events}

    @property
    def causes(self) -> dict[str, str]:
        """The severity of each cause that is found."""
        return {finding.cause: finding.severity for finding in diagnose(self.store, self.run).findings}


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Told]:
    """Trains models by plain descent on what a function returns as the loss; the first of them is watched."""

    def train(
        models: Any, losses: Callable[[], Any], *, steps: int = 28, rate: float = 1e-3, after: Any = lambda _: None
    ) -> Told:
        models = models if isinstance(models, list) else [models]
        optimizer = torch.optim.SGD([weight for model in models for weight in model.parameters()], rate)
        store = open_store(tmp_path / "runs")
        with watch(models[0], optimizer, store=store) as monitor:
            for _ in range(steps):
                loss = losses()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                after(optimizer)
        return Told(store, monitor.run.id)

    return train


#: How often a training that came out otherwise is repeated without a monitor before the monitor is accused.
_REPEATS = 20


def _bits(outcome: tuple[list[float], Any]) -> tuple[list[str], list[bytes]]:
    losses, trained = outcome
    modules = trained if isinstance(trained, list | tuple) else [trained]
    weights = [p.detach().float().numpy().tobytes() for module in modules for p in module.parameters()]
    return [one.hex() for one in losses], weights


def _alone(training: Training) -> tuple[list[str], list[bytes]]:
    torch.manual_seed(0)
    return _bits(training(lambda *_, **__: nullcontext()))


@pytest.fixture
def alike() -> Callable[..., Seen]:
    """Trains without and with monitors; the losses and the weights are the same bits, and what was seen comes back.

    On some processors TorchScript gives a last bit in one run and not in the next: other bits than those of the first
    run must then be those of another run without a monitor.
    """

    def train(training: Training, **options: Any) -> Seen:
        expected = _alone(training)
        store = open_store("memory:")
        seen = Seen(store, [])

        def watching(model: Any, optimizer: Any = None, **more: Any) -> Monitor:
            monitor = watch(model, optimizer, store=store, **{**options, **more})
            seen.monitors.append(monitor)
            return monitor

        torch.manual_seed(0)
        seen.losses, trained = training(watching)
        watched = _bits((seen.losses, trained))
        if watched != expected and watched not in [_alone(training) for _ in range(_REPEATS)]:
            assert watched == expected
        return seen

    return train


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, tensors of the processor go the way of a device."""
    return lambda: monkeypatch.setattr(torch_parts, "is_any_taken_for_remote", True)


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Gathers who has tensors read at once, for which a device would be waited for."""
    found: list[str] = []

    def telling(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def tell(*arguments: Any) -> Any:
            callers = [frame.name for frame in traceback.extract_stack()[-4:-1]]
            if "_content" not in callers:  # of the weights at the start and at the end, by torch's hash on a device
                found.append(f"{name} in {callers}")
            return read(*arguments)

        return tell

    place, array = torch_memory.ACCESS.place, torch_memory.ACCESS.array
    for module in (torch_view, torch_facts, torch_rank_numbers):
        for name in ("place_of", "array_of", "sample_of"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, telling(name, getattr(module, name)))
    object.__setattr__(torch_memory.ACCESS, "place", telling("place", place))  # frozen, and shared by all monitors
    object.__setattr__(torch_memory.ACCESS, "array", telling("array", array))
    yield found
    object.__setattr__(torch_memory.ACCESS, "place", place)
    object.__setattr__(torch_memory.ACCESS, "array", array)


SCRIPT = """
import torch
from torch import nn
from torch.nn import functional
torch.manual_seed(0)
def net(*sizes):
    pairs = zip(sizes, sizes[1:])
    return nn.Sequential(*(part for pair in pairs for part in (nn.Linear(*pair), nn.Tanh())))
steps, losses = {steps}, []
{text}
with open({left!r}, "w") as file:
    bits = [value.hex() for one in trained for p in one.parameters() for value in p.double().flatten().tolist()]
    print(losses, bits, sep=chr(10), file=file)
"""


@pytest.fixture
def run_alike(tmp_path: Path) -> Callable[..., tuple[Store, Run, list[Any]]]:
    """Run a script alone and by `mindscope run`; both must leave the same `losses` and parameters of `trained`.

    Returns the store, the run, and the losses.
    """

    def run(text: str, *, steps: int = 4) -> tuple[Store, Run, list[Any]]:
        script, left = tmp_path / "train.py", tmp_path / "left.txt"
        script.write_text(SCRIPT.format(steps=steps, text=text, left=str(left)))
        runpy.run_path(str(script), run_name="__main__")
        alone = left.read_text()
        assert run_script(script, [], store=tmp_path / "runs") == 0
        assert left.read_text() == alone
        store = open_store(tmp_path / "runs")
        losses: list[Any] = literal_eval(alone.splitlines()[0])
        return store, store.find_run("latest"), losses

    return run
