"""A trained classifier as attacks see it: logits and gradients of arrays within bounds, in any framework."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...probe import aside
from ..arrays import Array, namespace
from ..errors import InvalidInput, InvalidModel
from .network import Network
from .normalization import Normalization


class Model:
    """A classifier with input bounds; made by `wrap`."""

    def __init__(
        self,
        network: Network,
        bounds: tuple[float, float] = (0.0, 1.0),
        normalization: Normalization | None = None,
        name: str = "",
    ) -> None:
        self.bounds = _checked_bounds(bounds)
        self.name = name
        self._network = network
        self._normalization = normalization
        self._is_evaluating = False

    @property
    def framework(self) -> str:
        """`engine` or `torch`."""
        return self._network.framework

    def training_modules(self) -> int:
        """How many modules are in training mode; 0 while an attack is going on."""
        return self._network.training_modules()

    def native(self, x: Array) -> Array:
        """`x` as the array that searches work on: NumPy for the engine, a tensor on the model's device for torch."""
        return self._network.native(x)

    def logits(self, x: Array) -> Array:
        """`(n, classes)` logits of native inputs `(n, ...)`."""
        with self.evaluating():
            inner, _ = self._normalized(x)
            return _checked_logits(self._network.logits(inner), len(x))

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """The logits of `x` and the gradient, shaped as `x`, of their product with `cotangent(logits)`."""
        with self.evaluating():
            inner, std = self._normalized(x)
            logits, gradient = self._network.pullback(inner, lambda values: cotangent(_checked_logits(values, len(x))))
        return logits, gradient if std is None else gradient / std

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """As `pullback`, for each of several cotangents, with one pass forward."""
        with self.evaluating():
            inner, std = self._normalized(x)
            logits, gradients = self._network.pullbacks(
                inner, lambda values: cotangents(_checked_logits(values, len(x)))
            )
        return logits, gradients if std is None else [gradient / std for gradient in gradients]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model in evaluation mode and unseen by monitors; modules return to their modes. May be nested."""
        if self._is_evaluating:
            yield
            return
        with aside(), self._network.evaluating():
            self._is_evaluating = True
            try:
                yield
            finally:
                self._is_evaluating = False

    def _normalized(self, x: Array) -> tuple[Array, Array | None]:
        if self._normalization is None:
            return x, None
        mean, std = self._normalization.statistics(x)
        return (x - mean) / std, std


def _checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = float(bounds[0]), float(bounds[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"bounds expects two finite numbers (low, high) with low < high, got {bounds}")
    return low, high


def _checked_logits(logits: Array, samples: int) -> Array:
    shape = tuple(logits.shape)
    if len(shape) != 2 or shape[0] != samples or shape[1] < 2:
        raise InvalidModel(
            f"the model must return logits ({samples}, classes) with 2 classes or more for {samples} inputs, "
            f"got shape {shape}"
        )
    return logits


def looks_like_probabilities(logits: Array) -> bool:
    """True when every row is non-negative and sums to 1, which logits practically never do."""
    xp = namespace(logits)
    return bool(xp.all(logits >= 0)) and bool(xp.all(xp.abs(xp.sum(logits, axis=1) - 1.0) < 1e-4))
