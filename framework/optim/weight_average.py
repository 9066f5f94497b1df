"""An exponential moving average of weights, to evaluate and to save in place of the last ones."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..dtype import Array
from ..tensor import Parameter
from .optimizer_memory import is_native
from .parameter_update import load_kernels


class ExponentialMovingAverage:
    """A second set of weights that follows the first: `a += (1 - d) * (w - a)` after every step.

    `d` is `min(decay, (1 + updates) / (10 + updates))` with `warmup`, so that the first weights, which are random, are
    soon forgotten; else it is `decay`. Half-precision weights are averaged in float32.

    Args:
        params: The parameters to follow, running statistics included if they are to be averaged too.
        decay: Share of the average that stays in each update, in [0, 1).
        warmup: Whether the first updates keep less.

    Attributes:
        averages: One array per parameter, in their order.
        updates: How many were made.

    Example:
        >>> average = ExponentialMovingAverage(network.get_parameters(), decay=0.999)
        >>> loss = step(x, y)
        >>> average.update()
        >>> with average.applied():
        ...     accuracy = evaluate(network)

    Reference:
        Polyak and Juditsky 1992, "Acceleration of stochastic approximation by averaging"; the warm-up is that of
        TensorFlow's `ExponentialMovingAverage`.
    """

    def __init__(self, params: Iterable[Parameter], decay: float = 0.999, *, warmup: bool = True) -> None:
        self._parameters = tuple(params)
        if not self._parameters:
            raise ValueError("ExponentialMovingAverage expects at least one parameter, got none")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"ExponentialMovingAverage expects decay in [0, 1), got {decay}")
        self.decay, self.warmup, self.updates = float(decay), warmup, 0
        self.averages: tuple[Array, ...] = tuple(_wide(p.numpy()).copy() for p in self._parameters)

    def update(self) -> None:
        """Move the averages towards the weights as they are now."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        follow = load_kernels().follow
        for average, parameter in zip(self.averages, self._parameters, strict=True):
            follow(average.reshape(-1), np.ascontiguousarray(_wide(parameter.numpy())).reshape(-1), 1.0 - decay)
        self.updates += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Return a block in which the parameters hold their averages; afterwards they hold what they held before."""
        before = [parameter.asnumpy() for parameter in self._parameters]
        self.copy_to_parameters()
        try:
            yield
        finally:
            for parameter, values in zip(self._parameters, before, strict=True):
                parameter.set_data(values)

    def copy_to_parameters(self) -> None:
        """Replace the parameters by their averages."""
        for parameter, average in zip(self._parameters, self.averages, strict=True):
            parameter.set_data(average.astype(parameter.dtype, copy=False))

    def state_dict(self) -> dict[str, int | list[Array]]:
        """Return what a resumed average needs."""
        return {"updates": self.updates, "averages": [average.copy() for average in self.averages]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the averages from `state`, or change nothing.

        Raises:
            ValueError: A part is missing, or the shapes are those of other parameters.
        """
        missing = [key for key in ("updates", "averages") if key not in state]
        if missing:
            raise ValueError(f"ExponentialMovingAverage cannot take this state: {', '.join(missing)} missing")
        shapes, given = [a.shape for a in self.averages], [np.shape(a) for a in state["averages"]]
        if shapes != given:
            raise ValueError(f"ExponentialMovingAverage expects averages of shapes {shapes}, got {given}")
        self.updates = int(state["updates"])
        for average, saved in zip(self.averages, state["averages"], strict=True):
            average[...] = saved


def _wide(array: Array) -> Array:
    return array if is_native(array) else array.astype(np.float32)
