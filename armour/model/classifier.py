"""A trained classifier as attacks see it: logits, gradients and confidences, in any framework."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from ...probe import aside
from ..array_api import Array, Floats, cast, from_numpy, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel
from .features import FeatureBounds, Features, feature_bounds
from .outputs import Classes, Logits, Probabilities, Reading, Returns, check_shape, class_indices, find_reading
from .query_budget import QueryBudget
from .task import Task

#: What an attack asks a model for, and what a model answers with: each of them implies those after it.
Asks = Literal["gradients", "logits", "decisions"]


class Network(Protocol):
    """The interface of a framework's adapter.

    Args:
        framework: Its name, for the record.
        has_gradients: Whether `pullback` is of use.
        dtype: The name of the element type that it computes in, None where it takes any; it casts its inputs itself.
    """

    framework: str
    has_gradients: bool

    @property
    def dtype(self) -> str | None:
        """The name of that element type."""

    def native(self, x: Array) -> Array:
        """Return `x`, a NumPy array or an array of the framework, as the array that searches work on."""

    def logits(self, x: Array) -> Array:
        """Return the array that the model returns for `x`, without a gradient."""

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the output for `x`, and the gradient to `x` of its product with `cotangent(output)`."""

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the output for `x`, and a gradient for each cotangent, from one forward pass and one backward each."""

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


#: Why a network whose output is cut off from its input is refused, and what to do.
NO_GRADIENT: Final = (
    "the logits do not depend on x by differentiable operations; do not detach the input, or wrap a function of NumPy "
    "inputs around the model to attack it without gradients"
)

#: Our choice: with 500 images of 8 x 8 at once, every pass returns memory to the system and asks for it again, and
#: forward and backward take 1.3 times (torch) and 1.4 times (engine) as long an image as with 100 to 200 of them.
_LARGEST: Final = 192


def part_size(samples: int) -> int:
    """Return the size of equal parts for so many samples, none above the largest allowed."""
    parts = max(-(-samples // _LARGEST), 1)
    return -(-samples // parts)


class WrappedModel:
    """A classifier with input bounds; made by `wrap`.

    Args:
        bounds: Two numbers, or two arrays for each feature or channel.
        returns: What the network's output means; None decides by the first inputs that `look` sees.
        classes: The labels that the model knows; None numbers them from 0.
        queries: The rows that the model may be asked for; None counts none.
        features: Which changes of an input are legal; None for all.
        task: What outputs mean where they are not one class for each input; they are then returned as logits, unread.
    """

    def __init__(
        self,
        network: Network,
        bounds: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
        normalization: Normalization | None = None,
        name: str = "",
        *,
        returns: Returns | None = None,
        classes: Classes | None = None,
        queries: QueryBudget | None = None,
        features: Features | None = None,
        task: Task | None = None,
    ) -> None:
        self.feature_bounds = None if np.ndim(bounds[0]) == np.ndim(bounds[1]) == 0 else feature_bounds(bounds)
        self.features = features
        self.task = task
        self._bounds = (0.0, 1.0) if self.feature_bounds is not None else _check_bounds(bounds)
        self._shares: FeatureBounds | None = None
        self._shares_dtype = "float64"
        self.name = name
        self.queries = queries
        self._network = network
        self._normalization = normalization
        self._returns: Returns | None = returns
        self._classes = classes
        self._reading: Reading | None = None if task is None else Logits()
        self._is_evaluating = False

    @property
    def framework(self) -> str:
        """`engine`, `torch`, `scikit-learn`, `onnx` or `function`."""
        return self._network.framework

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value of an input element.

        Raises:
            InvalidInput: Each feature has its own; attacks and `evaluate` work on positions between them instead.
        """
        if self.feature_bounds is not None:
            raise InvalidInput(
                f"{self.name or 'the model'} has bounds for each feature, which attacks and evaluate take; for all "
                "else wrap it with two numbers as bounds"
            )
        return self._bounds

    def of_shares(self, dtype: str) -> Self:
        """Return the model of positions between its bounds, 0 to 1, whose inputs are made in that element type."""
        model = copy.copy(self)
        model._shares, model._shares_dtype, model.feature_bounds = self.feature_bounds, dtype, None
        return model

    def inputs_of(self, shares: Array) -> Array:
        """Return the inputs at positions `(n, ...)` between the bounds of each feature."""
        return shares if self._shares is None else self._inputs_of(self._shares, shares)[0]

    def _inputs_of(self, bounds: FeatureBounds, shares: Array) -> tuple[Array, Array]:
        x, width = bounds.to_inputs(shares)
        x = x if self.features is None else self.features.rounded(x)
        return namespace(x).astype(x, getattr(namespace(x), self._shares_dtype)), width

    def arranged(self, x: Array) -> Array:
        """Return inputs as the array that attacks work on; a model of tokens makes it of these."""
        return x

    def check_rows(self, x: Array) -> None:
        """Raise `InvalidInput` where clean inputs are not legal themselves; positions between bounds are no inputs."""
        if self.features is not None and self._shares is None:
            self.features.check(x)

    def legal(self, candidates: Array, x: Array) -> Array:
        """Return the legal rows that the candidates stand for, given the clean rows that they come from."""
        if self.features is None:
            return candidates
        return self.features.legal(candidates, x, None if self._shares is None else self._shares.to_inputs(x[:1])[1])

    @property
    def dtype(self) -> str | None:
        """Name of the element type that the model computes in, None where it takes any."""
        return self._network.dtype if self._shares is None else "float64"

    @property
    def answers(self) -> Asks:
        """What the model answers with, as far as it has been asked: gradients, logits, or decisions alone."""
        if self._reading is not None and not self._reading.has_scores:
            return "decisions"
        return "gradients" if self._network.has_gradients else "logits"

    def training_modules(self) -> int:
        """Count the modules in training mode; 0 while an attack runs."""
        return self._network.training_modules()

    def native(self, x: Array) -> Array:
        """Convert `x` to the array that searches work on: a tensor on the device for torch, NumPy for all others."""
        return self._network.native(x)

    def class_indices(self, labels: Array) -> Array:
        """Return the columns of labels, which are the labels themselves unless the model names its classes."""
        return labels if self._classes is None else class_indices(labels, self._classes)

    def look(self, x: Array) -> Array:
        """Return the logits of a few native inputs, and decide by them how outputs are read from now on.

        Raises:
            InvalidModel: They cannot be read; the message says how to mend it.
        """
        with self.evaluating():
            raw = self._output(self._normalize(x)[0])
            if self._reading is None:
                reading = find_reading(raw, len(x), self._returns, self._classes)
                if isinstance(reading, Probabilities) and self._returns is None and self._network.has_gradients:
                    warnings.warn(
                        f"{self.name or 'the model'} returns probabilities; attacks take their logarithms, but what "
                        "rounds to 0 has lost its gradient: return logits, or say wrap(model, returns='probabilities')",
                        stacklevel=2,
                    )
                self._reading = reading
            return self._checked(self._reading.logits(raw))

    def logits(self, x: Array) -> Array:
        """Return `(n, classes)` logits of native inputs `(n, ...)`.

        Raises:
            InvalidModel: The model returns what cannot be read as such.
            QueriesExhausted: The model's query budget is spent.
        """
        with self.evaluating():
            raw = self._output(self._normalize(x)[0])
            return self._checked(self._reading_of(raw).logits(raw))

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the logits of `x` and the gradient, shaped as `x`, of their product with `cotangent(logits)`."""
        seen: list[Array] = []
        with self.evaluating():
            inner, std = self._normalize(x)
            self._count(len(x))
            to_output = self._chained(len(x), lambda values: [cotangent(values)], seen)
            _, gradient = self._network.pullback(inner, lambda output: to_output(output)[0])
        return seen[0], gradient if std is None else gradient / std

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Do the same as `pullback` for each of several cotangents, with one forward pass."""
        seen: list[Array] = []
        with self.evaluating():
            inner, std = self._normalize(x)
            self._count(len(x))
            _, gradients = self._network.pullbacks(inner, self._chained(len(x), cotangents, seen))
        return seen[0], gradients if std is None else [gradient / std for gradient in gradients]

    def reserving(self, rows: int) -> AbstractContextManager[None]:
        """Keep so many rows of the query budget, if there is one, for what comes after the block."""
        return nullcontext() if self.queries is None else self.queries.reserving(rows)

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

    def _output(self, inner: Array) -> Array:
        """Return what the network answers, one row or number a sample."""
        self._count(len(inner))
        return self._rows(self._network.logits(inner), len(inner))

    def _chained(
        self, samples: int, cotangents: Callable[[Array], Sequence[Array]], seen: list[Array]
    ) -> Callable[[Array], list[Array]]:
        """Return cotangents of the network's output for those of the logits, which are appended to `seen`."""

        def to_output(output: Array) -> list[Array]:
            raw = self._rows(output, samples)
            reading = self._reading_of(raw)
            seen.append(self._checked(reading.logits(raw)))
            return [reading.cotangent(raw, weight).reshape(output.shape) for weight in cotangents(seen[-1])]

        return to_output

    def _count(self, rows: int) -> None:
        if self.queries is not None:
            self.queries.spend(rows)

    def _reading_of(self, raw: Array) -> Reading:
        """Return the reading that `look` has decided, or before that the one that the shape and dtype tell."""
        if self._reading is not None:
            return self._reading
        return find_reading(raw, len(raw), self._returns or "logits", self._classes)

    def _rows(self, output: Array, samples: int) -> Array:
        """Return the output with one row a sample, also where the model has dropped the axis of a batch of one."""
        if samples == 1 and hasattr(output, "shape") and (output.ndim == 0 or output.shape[0] != 1):
            output = output.reshape((1, *output.shape))
        if self.task is None:
            check_shape(output, samples)
        elif not hasattr(output, "shape") or output.ndim == 0 or output.shape[0] != samples:
            raise InvalidModel(
                f"the model must return one row for each of {samples} inputs, got {getattr(output, 'shape', output)!r}"
            )
        return output

    def _checked(self, logits: Array) -> Array:
        if self._classes is not None and logits.shape[1] != len(self._classes):
            raise InvalidModel(
                f"the model returns {logits.shape[1]} columns and knows {len(self._classes)} classes; an estimator of "
                "pairs needs decision_function_shape='ovr', or wrap(model, returns='labels')"
            )
        return logits

    def _normalize(self, x: Array) -> tuple[Array, Array | None]:
        width = None
        if self._shares is not None:
            x, width = self._inputs_of(self._shares, x)
        if self._normalization is None:
            return x, None if width is None else 1.0 / width
        mean, std = self._normalization.statistics(x)
        return (x - mean) / std, std if width is None else std / width


def _check_bounds(bounds: tuple[ArrayLike, ArrayLike]) -> tuple[float, float]:
    low, high = (float(np.asarray(end, np.float64)) for end in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"bounds expects two finite numbers (low, high) with low < high, got {bounds}")
    return low, high


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
    """Return `(n, classes)` softmax of the logits of inputs `(n, ...)`; refuse a model whose task has no classes."""
    if model.task is not None:
        raise InvalidInput(f"probabilities expect a model of classes, got the task {type(model.task).__name__}")
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
