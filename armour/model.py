"""A trained classifier as attacks see it: logits and gradients of arrays within bounds, in any framework."""

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..framework.nn import Cell
from ..probe import aside
from .arrays import Array, cast, from_numpy, namespace
from .engine_network import EngineNetwork
from .errors import InvalidInput, InvalidModel


class Network(Protocol):
    """What a framework has to offer: one adapter file each."""

    framework: str

    def native(self, x: Array) -> Array:
        """`x`, a NumPy array or an array of the framework, as the array that searches work on."""

    def logits(self, x: Array) -> Array:
        """What the model returns for `x`, without a gradient."""

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """The logits of `x`, and the gradient to `x` of their product with `cotangent(logits)`."""

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """The logits of `x`, and a gradient for each of several cotangents: one pass forward, one back for each."""

    def training_modules(self) -> int:
        """How many modules are in training mode."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Puts every module into evaluation mode, and afterwards each back into its own."""


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
        """Mean and std in the dtype of `x`, shaped to broadcast against it."""
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


def wrap(model: object, bounds: tuple[float, float] = (0.0, 1.0), preprocessing: Normalization | None = None) -> Model:
    """The model as attacks see it.

    Args:
        model: An engine `Cell` or a torch `Module` that takes `(n, ...)` inputs and returns `(n, classes)` logits.
        bounds: Smallest and largest value that an input element may have.
        preprocessing: Normalization that the model expects and does not do itself.

    Raises:
        InvalidModel: It is neither, or torch is missing.
    """
    if isinstance(model, Model):
        raise InvalidModel("wrap expects an engine Cell or a torch Module, got a model that is wrapped already")
    if preprocessing is not None and not isinstance(preprocessing, Normalization):
        raise InvalidInput(
            f"preprocessing expects a Normalization(mean, std), got {type(preprocessing).__name__}; "
            "put any other preprocessing into the model, so that gradients pass through it"
        )
    network = network_of(model)
    if count := network.training_modules():
        warnings.warn(
            f"{type(model).__name__} has {count} modules in training mode; attacks switch them to evaluation mode and "
            "restore them afterwards. Call eval() (torch) or set_train(False) (engine) first to say that you mean it",
            stacklevel=2,
        )
    return Model(network, bounds, preprocessing, type(model).__name__)


def network_of(model: object) -> Network:
    """What an engine `Cell` or a torch `Module` offers; `InvalidModel` when it is neither."""
    if isinstance(model, Cell):
        return EngineNetwork(model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_network import TorchNetwork  # noqa: PLC0415  optional extra

        return TorchNetwork(model)
    raise InvalidModel(
        f"wrap expects an engine Cell or a torch Module, got {type(model).__module__}.{type(model).__qualname__}"
    )


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
