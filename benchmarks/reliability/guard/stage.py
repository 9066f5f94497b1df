"""What the trainings of the campaign tell of themselves, and where a trial reaches into them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, SupportsFloat

import mindscope as ms
import numpy as np
import torch

#: Configurations of watched trainings: what is recorded by default, and everything that there is.
EVERYTHING: dict[str, Any] = {
    "subjects": {"gradient/unreduced": 1, "gradient_noise_scale": 1},
    "nan_trace": True,
    "flight_recorder": {"steps": 3},
    "on_finding": [{"do": "skip_step", "causes": ["non_finite_*"]}],
}


class Stage:
    """One training in progress.

    Attributes:
        losses: The losses so far.
        weights: The last parameters, and the state of torch's generator behind them.
        before_step: Called with the number of each step before it.
        is_watched: Whether `watch` watches.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(
        self,
        *,
        is_watched: bool = False,
        config: Mapping[str, Any] | None = None,
        before_step: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Forget the training before."""
        self.is_watched, self.before_step, self._config = is_watched, before_step, config
        self.losses: list[str] = []
        self.weights: list[bytes] = []
        self.monitor: ms.Monitor | None = None
        self._run: tuple[ms.Store, str] | None = None
        self._state = ""

    def watch(self, model: object, optimizer: Any = None) -> None:
        """Watch the training, if this trial does and nobody else will."""
        if self.is_watched:
            store = ms.open_store("memory:")
            self.monitor = ms.watch(model, optimizer, store=store, config=self._config, run="trial")
            self._run = store, self.monitor.run.id

    def read_state(self, folder: str) -> None:
        """Read the state of the run that `mindscope run` has recorded in this folder."""
        with suppress(Exception), ms.open_store(folder) as store:
            self._state = store.find_run("trial").state

    def state(self) -> str:
        """Return the state of the run; empty where there is none."""
        if self._run is None:
            return self._state
        store, run = self._run
        return store.find_run(run).state

    def log(self, **scalars: float) -> None:
        """Log scalars as a user does."""
        if self.monitor is not None:
            self.monitor.log(**scalars)

    def step(self, number: int) -> None:
        """Note that a step begins."""
        self.before_step(number)

    def loss(self, value: SupportsFloat) -> None:
        """Keep a loss, to the last bit."""
        self.losses.append(float(value).hex())

    def end(self, tensors: Sequence[Any]) -> None:
        """Keep the last parameters and close the monitor."""
        if self.monitor is not None:
            self.monitor.close()
        self.weights = [_array(tensor).tobytes() for tensor in tensors]
        self.weights.append(torch.get_rng_state().numpy().tobytes())


def _array(tensor: Any) -> np.ndarray:
    """Return the values of a tensor of torch or of the engine."""
    return tensor.detach().numpy() if isinstance(tensor, torch.Tensor) else tensor.asnumpy()


stage = Stage()
