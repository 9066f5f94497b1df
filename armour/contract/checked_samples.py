"""Inputs and labels, checked before any computation, with the model's predictions for the clean inputs."""

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...framework import Tensor
from ..array_api import Array, Rows, all_finite, concatenate, from_numpy, namespace, to_numpy
from ..errors import ArmourError, InvalidInput, InvalidModel
from ..model import Asks, WrappedModel
from ..problem import Ascent, Broken, Criterion, InitialAscent, Misclassification, Objective, Targeted, ascent_at

_FIRST_INPUTS = 16  # inputs that check the model before the work begins: our choice
_ROUNDING = 4 * 2.0**-23  # of the bounds' size, by which float32 arithmetic may leave them: a few of its last digits


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Checked inputs with the model's predictions.

    Args:
        x: `(n, ...)` native inputs.
        labels: `(n,)` true classes.
        criterion: When an input counts as adversarial, on the device of `x`.
        clean_predictions: `(n,)` classes that the model gives the clean inputs.
        solved: `(n,)` bool, True where the clean input meets the criterion already; these are not attacked.
        classes: How many the model tells apart.
        initial_ascent: The attack's first objective and its gradient at the inputs, if the attack asks for them.
    """

    x: Array
    labels: Rows
    criterion: Criterion
    clean_predictions: Rows
    solved: NDArray[np.bool_]
    classes: int
    initial_ascent: InitialAscent | None = None

    @property
    def clean_accuracy(self) -> float:
        """Share of clean inputs that get their label."""
        return float(np.mean(self.clean_predictions == self.labels))


def check_samples(
    model: WrappedModel,
    x: Array,
    y: ArrayLike,
    *,
    targets: ArrayLike | None,
    margin: float,
    batch_size: int,
    asks: Asks = "decisions",
    initial_objective: Objective | None = None,
) -> Samples:
    """Check the inputs and return them with the model's clean predictions.

    Args:
        x: `(n, ...)` real numbers within the model's bounds; cast to the precision that the model computes in.
        y: `(n,)` integer labels, or those of the model's own classes where it names them.
        targets: `(n,)` classes to reach; None asks for any other class than the label.
        margin: By how much the winning logit must lead.
        asks: What the model is going to be asked for; that it answers is tried on the first inputs.
        initial_objective: An objective whose value and gradient at the inputs come with the logits.

    Raises:
        InvalidInput: Inputs, labels, targets, margin or batch size are not valid.
        InvalidModel: The model does not return finite logits for them.
    """
    if batch_size < 1:
        raise InvalidInput(f"batch_size expects 1 or more, got {batch_size}")
    if not (math.isfinite(margin) and margin >= 0):
        raise InvalidInput(f"margin expects a finite number of 0 or more, got {margin}")
    inputs = _checked_inputs(model, x)
    _check_queries(model, len(inputs))
    model.check_rows(inputs)
    goal = (_check_classes if model.task is None else _check_task)(model, inputs, y, targets, margin)
    first, labels, classes, criterion = goal
    if asks == "gradients" and model.answers == "gradients" and initial_objective is None:
        model.pullback(inputs[:_FIRST_INPUTS], namespace(first).zeros_like)
    logits, initial = _clean(model, inputs, criterion, batch_size, initial_objective)
    _check_finite(logits)
    winners = criterion.class_logits(logits)
    predictions = np.asarray(to_numpy(namespace(winners).argmax(winners, axis=1)), np.int64)
    solved = np.asarray(to_numpy(criterion.met(logits)), np.bool_)
    return Samples(inputs, labels, criterion, predictions, solved, classes, initial)


#: The first outputs, `(n,)` labels, how many classes there are, and the criterion.
_Goal = tuple[Array, Rows, int, Criterion]


def _check_classes(model: WrappedModel, inputs: Array, y: ArrayLike, targets: ArrayLike | None, margin: float) -> _Goal:
    labels = _checked_classes(model, y, len(inputs), "labels")
    target_classes = None if targets is None else _checked_classes(model, targets, len(inputs), "targets")
    first = _first_logits(model, inputs[:_FIRST_INPUTS])
    classes = int(first.shape[1])
    _check_range(labels, classes, "labels")
    if target_classes is None:
        return first, labels, classes, Misclassification(from_numpy(labels, inputs), margin)
    _check_range(target_classes, classes, "targets")
    return first, labels, classes, Targeted(from_numpy(target_classes, inputs), margin)


def _check_task(model: WrappedModel, inputs: Array, y: ArrayLike, targets: ArrayLike | None, margin: float) -> _Goal:
    """Check what a task asks for: a search sees the classes kept, the label of every sample, and broken."""
    task = model.task
    assert task is not None
    if targets is not None:
        raise InvalidInput(f"targets expects a model of classes, got the task {type(task).__name__}")
    array = to_numpy(y) if hasattr(y, "detach") else np.asarray(y.numpy() if isinstance(y, Tensor) else y)
    if array.ndim == 0 or len(array) != len(inputs):
        raise InvalidInput(f"y expects one row for each of {len(inputs)} samples, got shape {array.shape}")
    first = _first_logits(model, inputs[:_FIRST_INPUTS])
    criterion = Broken(task, from_numpy(task.check(first, array), inputs), margin)
    return first, np.zeros(len(inputs), np.int64), 2, criterion


def _clean(
    model: WrappedModel, x: Array, criterion: Criterion, batch_size: int, initial_objective: Objective | None
) -> tuple[Array, InitialAscent | None]:
    """Return the logits of all inputs, and the initial ascent where an objective is given."""
    batches = [np.arange(start, min(start + batch_size, len(x))) for start in range(0, len(x), batch_size)]
    parts = [x] if len(batches) == 1 else [x[rows[0] : rows[-1] + 1] for rows in batches]
    if initial_objective is None:
        return concatenate([model.logits(part) for part in parts]), None
    with np.errstate(all="ignore"):  # checked afterwards with a message of its own
        found = [
            ascent_at(model, part, criterion.take(rows), initial_objective)
            for part, rows in zip(parts, batches, strict=True)
        ]
    value, gradient = (concatenate([ascent[field] for _, ascent in found]) for field in (0, 1))
    met = np.concatenate([ascent.met for _, ascent in found])
    return concatenate([logits for logits, _ in found]), InitialAscent(initial_objective, Ascent(value, gradient, met))


def check_epsilons(epsilons: float | Iterable[float]) -> tuple[float, ...]:
    """Check the budgets and return them as a tuple, in the order given.

    Raises:
        InvalidInput: There is none, or one is negative or not finite.
    """
    values = (epsilons,) if isinstance(epsilons, float | int) else tuple(epsilons)
    if not values:
        raise InvalidInput("epsilons expects one budget or more, got none")
    for value in values:
        if not (math.isfinite(value) and value >= 0):
            raise InvalidInput(f"epsilons expects finite numbers of 0 or more, got {value}")
    return tuple(float(value) for value in values)


def _checked_inputs(model: WrappedModel, x: Array) -> Array:
    native = _in_precision(model, model.native(x))
    if native.ndim < 2 or 0 in native.shape:
        raise InvalidInput(f"x expects one sample or more, shape (n, ...), got {tuple(native.shape)}")
    (low, high), smallest, largest = model.bounds, float(native.min()), float(native.max())  # NaN if there is one
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        count = int((~namespace(native).isfinite(native)).sum())
        raise InvalidInput(f"x expects finite values, got {count} NaN or infinite")
    rounding = _ROUNDING * max(abs(low), abs(high))
    if smallest < low - rounding or largest > high + rounding:
        raise InvalidInput(
            f"x expects values within the model's bounds [{low:.9g}, {high:.9g}], got [{smallest:.9g}, {largest:.9g}]; "
            "scale x, or name its bounds: wrap(model, bounds=(low, high)), in a command --bounds LOW,HIGH"
        )
    return namespace(native).clip(native, low, high) if smallest < low or largest > high else native


def _in_precision(model: WrappedModel, x: Array) -> Array:
    """Cast to what the search computes in: the precision of the model, and float32 where that is a shorter one."""
    given = str(x.dtype).removeprefix("torch.")
    if given not in ("float16", "bfloat16", "float32", "float64"):
        raise InvalidInput(
            f"x expects real numbers, got {given}; cast it, and scale it to the model's bounds; of token ids "
            "armour.wrap_tokens(model) attacks the embeddings"
        )
    wanted = model.dtype if model.dtype == "float64" else "float32"
    if given == wanted or (model.dtype is None and given == "float64"):
        return x
    if given == "float64":
        warnings.warn(f"x is float64 and the model computes in {model.dtype}: it is attacked in float32", stacklevel=5)
    return x.astype(wanted) if isinstance(x, np.ndarray) else x.to(getattr(namespace(x), wanted))


def _checked_classes(model: WrappedModel, values: ArrayLike, samples: int, name: str) -> Rows:
    if isinstance(values, Tensor):
        values = values.numpy()
    array: NDArray[np.generic] = model.class_indices(to_numpy(values) if hasattr(values, "cpu") else np.asarray(values))
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} expects integer classes, got dtype {array.dtype}")
    if array.shape != (samples,):
        raise InvalidInput(f"{name} expects one class a sample, shape ({samples},), got {array.shape}")
    return array.astype(np.int64)


def in_shares(model: WrappedModel, x: Array) -> tuple[WrappedModel, Array]:
    """Return a model with bounds for each feature as one of positions between them, 0 to 1, and the inputs' positions.

    Tokens become the array that a model of tokens attacks.

    Raises:
        InvalidInput: The inputs do not fit the bounds or the model.
    """
    x = model.arranged(x)
    bounds = model.feature_bounds
    if bounds is None:
        return model, x
    native = _in_precision(model, model.native(x))
    model.check_rows(native)
    return model.of_shares(str(native.dtype).removeprefix("torch.")), bounds.to_unit(native)


def _check_range(values: Rows, classes: int, name: str) -> None:
    if values.min() < 0 or values.max() >= classes:
        raise InvalidInput(
            f"{name} expects classes 0 to {classes - 1}, as the model has {classes} logits; "
            f"got {values.min()} to {values.max()}"
        )


def _check_queries(model: WrappedModel, samples: int) -> None:
    """Refuse a query budget that does not even cover the clean predictions."""
    needed = samples + min(samples, _FIRST_INPUTS)
    if model.queries is not None and model.queries.left < needed:
        raise InvalidInput(
            f"queries expects {needed} rows or more for the predictions of {samples} clean inputs alone, "
            f"got {model.queries.left} left of {model.queries.limit}; attack fewer samples, or wrap with more queries"
        )


def _first_logits(model: WrappedModel, x: Array) -> Array:
    """Return the logits of a few inputs: a wrong model or label stops before the work begins."""
    try:
        logits = model.look(x)
    except ArmourError:
        raise
    except Exception as error:
        remedy = "; if the model computes in float32, cast x: x.astype('float32')" if "64" in str(x.dtype) else ""
        raise InvalidInput(
            f"the model cannot be called with x of shape {tuple(x.shape)} and dtype {x.dtype}: {error}{remedy}"
        ) from error
    _check_finite(logits)
    return logits


def _check_finite(logits: Array) -> None:
    if not all_finite(logits):
        raise InvalidModel("the model must return finite logits for clean inputs, got NaN or infinity")
