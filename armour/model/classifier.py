"""A trained classifier as attacks see it: logits, gradients and confidences, in any framework."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ...probe import aside
from ..array_api import Array, Floats, cast, from_numpy, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel


class Network(Protocol):
    """The interface of a framework's adapter."""

    framework: str

    def native(self, x: Array) -> Array:
        """Return `x`, a NumPy array or an array of the framework, as the array that searches work on."""

    def logits(self, x: Array) -> Array:
        """Return what the model returns for `x`, without a gradient."""

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the logits of `x`, and the gradient to `x` of their product with `cotangent(logits)`."""

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the logits of `x`, and a gradient for each cotangent: one forward pass, one backward pass for each."""

    def training_modules(self) -> int:
        """Count the modules in training mode."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Switch every module to evaluation mode within the block, and back to its own mode afterwards."""


@dataclass(frozen=True, slots=True)
class Normalization:
    """Preprocessing `(x - mean) / std` that belongs to the model: budgets are measured before it.

    Args:
        mean: One number, or one a channel.
        std: As `mean`, greater than 0.
        axis: The channel axis, counted from the last.
    """

    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]
    axis: int = -3

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.std, np.float64) > 0):
            raise InvalidInput(f"normalization expects every std > 0, got {self.std}")

    def statistics(self, x: Array) -> tuple[Array, Array]:
        """Return mean and std in the dtype of `x`, shaped to broadcast against it."""
        return self._along_axis(self.mean, x), self._along_axis(self.std, x)

    def _along_axis(self, values: float | tuple[float, ...], x: Array) -> Array:
        array = np.asarray(values, np.float64).reshape(-1)
        if array.size > 1:
            shape = [1] * x.ndim
            if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] != array.size:
                raise InvalidInput(
                    f"normalization has {array.size} channels on axis {self.axis}, x has shape {tuple(x.shape)}; "
                    "name the channel axis with axis="
                )
            shape[self.axis] = array.size
            array = array.reshape(shape)
        return cast(from_numpy(array, x), x)


#: Our choice: with 500 images of 8 x 8 at once, every pass returns memory to the system and asks for it again, and
#: forward and backward take 1.3 times (torch) and 1.4 times (engine) as long an image as with 100 to 200 of them.
_LARGEST: Final = 192


def part_size(samples: int) -> int:
    """Return the size of equal parts for so many samples, none above the largest allowed."""
    parts = max(-(-samples // _LARGEST), 1)
    return -(-samples // parts)


class WrappedModel:
    """A classifier with input bounds; made by `wrap`."""

    def __init__(
        self,
        network: Network,
        bounds: tuple[float, float] = (0.0, 1.0),
        normalization: Normalization | None = None,
        name: str = "",
    ) -> None:
        self.bounds = _check_bounds(bounds)
        self.name = name
        self._network = network
        self._normalization = normalization
        self._is_evaluating = False

    @property
    def framework(self) -> str:
        """`engine` or `torch`."""
        return self._network.framework

    def training_modules(self) -> int:
        """Count the modules in training mode; 0 while an attack runs."""
        return self._network.training_modules()

    def native(self, x: Array) -> Array:
        """Convert `x` to the array that searches work on: NumPy for the engine, a tensor on the device for torch."""
        return self._network.native(x)

    def logits(self, x: Array) -> Array:
        """Return `(n, classes)` logits of native inputs `(n, ...)`."""
        with self.evaluating():
            inner, _ = self._normalize(x)
            return _check_logits(self._network.logits(inner), len(x))

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the logits of `x` and the gradient, shaped as `x`, of their product with `cotangent(logits)`."""
        with self.evaluating():
            inner, std = self._normalize(x)
            logits, gradient = self._network.pullback(inner, lambda values: cotangent(_check_logits(values, len(x))))
        return logits, gradient if std is None else gradient / std

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Do the same as `pullback` for each of several cotangents, with one forward pass."""
        with self.evaluating():
            inner, std = self._normalize(x)
            logits, gradients = self._network.pullbacks(inner, lambda values: cotangents(_check_logits(values, len(x))))
        return logits, gradients if std is None else [gradient / std for gradient in gradients]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch the model to evaluation mode, unseen by monitors, within the block; blocks may nest."""
        if self._is_evaluating:
            yield
            return
        with aside(), self._network.evaluating():
            self._is_evaluating = True
            try:
                yield
            finally:
                self._is_evaluating = False

    def _normalize(self, x: Array) -> tuple[Array, Array | None]:
        if self._normalization is None:
            return x, None
        mean, std = self._normalization.statistics(x)
        return (x - mean) / std, std


def _check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = float(bounds[0]), float(bounds[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"bounds expects two finite numbers (low, high) with low < high, got {bounds}")
    return low, high


def _check_logits(logits: Array, samples: int) -> Array:
    shape = tuple(logits.shape)
    if len(shape) != 2 or shape[0] != samples or shape[1] < 2:
        raise InvalidModel(
            f"the model must return logits ({samples}, classes) with 2 classes or more for {samples} inputs, "
            f"got shape {shape}"
        )
    return logits


def looks_like_probabilities(logits: Array) -> bool:
    """Return whether every row is non-negative and sums to 1, which logits practically never do."""
    xp = namespace(logits)
    return bool(xp.all(logits >= 0)) and bool(xp.all(xp.abs(xp.sum(logits, axis=1) - 1.0) < 1e-4))


def model_logits(model: WrappedModel, x: Array, batch_size: int = 256) -> Floats:
    """Return `(n, classes)` float64 logits of inputs `(n, ...)`."""
    if batch_size < 1 or len(x) == 0:
        raise InvalidInput(
            f"expected 1 sample or more and batch_size of 1 or more, got {len(x)} samples and batch_size={batch_size}"
        )
    native = model.native(x)
    parts = [to_numpy(model.logits(native[i : i + batch_size])) for i in range(0, len(x), batch_size)]
    return np.concatenate(parts).astype(np.float64)


def probabilities(model: WrappedModel, x: Array) -> Floats:
    """Return `(n, classes)` softmax of the logits of inputs `(n, ...)`."""
    logits = model_logits(model, x)
    return np.asarray(np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)), np.float64)


def true_class_margin(logits: Floats, y: ArrayLike) -> Floats:
    """Return `(n,)` log(p / (1 - p)) of the true class's probability p, exact where p rounds to 0 or 1.

    Args:
        logits: `(n, classes)`, two classes or more.
        y: `(n,)` integer classes.

    Reference:
        Carlini et al. 2022, arXiv:2112.03570, section V-C.
    """
    labels = np.asarray(y)
    if labels.shape != logits.shape[:1] or labels.dtype.kind not in "iu":
        raise InvalidInput(f"y expects {len(logits)} integer classes, got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise InvalidInput(f"y expects classes 0 to {logits.shape[1] - 1}, got {labels.min()} to {labels.max()}")
    rows = np.arange(len(logits))
    others = logits.copy()
    others[rows, labels] = -np.inf
    peak = others.max(axis=1)
    margin: Floats = logits[rows, labels] - peak - np.log(np.exp(others - peak[:, None]).sum(axis=1))
    return margin


def cross_entropy(logits: Floats, y: ArrayLike) -> Floats:
    """Return `(n,)` negative logarithm of the true class's probability."""
    return np.logaddexp(0.0, -true_class_margin(logits, y))
