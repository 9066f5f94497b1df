"""Inputs and labels, checked before any computation, with the model's predictions for the clean inputs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...framework import Tensor
from ..array_api import Array, Rows, all_finite, concatenate, from_numpy, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel
from ..model import WrappedModel, looks_like_probabilities
from ..problem import Ascent, Criterion, InitialAscent, Misclassification, Objective, Targeted, ascent_at

_FIRST_INPUTS = 16  # inputs that check the model before the work begins: our choice


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Checked inputs with the model's predictions.

    Args:
        x: `(n, ...)` native inputs.
        labels: `(n,)` true classes.
        criterion: When an input counts as adversarial, on the device of `x`.
        clean_predictions: `(n,)` classes that the model gives the clean inputs.
        solved: `(n,)` bool, True where the clean input meets the criterion already; these are not attacked.
        initial_ascent: The attack's first objective and its gradient at the inputs, if the attack asks for them.
    """

    x: Array
    labels: Rows
    criterion: Criterion
    clean_predictions: Rows
    solved: NDArray[np.bool_]
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
    initial_objective: Objective | None = None,
) -> Samples:
    """Check the inputs and return them with the model's clean predictions.

    Args:
        x: `(n, ...)` float32 or float64, within the model's bounds.
        y: `(n,)` integer labels.
        targets: `(n,)` classes to reach; None asks for any other class than the label.
        margin: By how much the winning logit must lead.
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
    labels = _checked_classes(y, len(inputs), "labels")
    target_classes = None if targets is None else _checked_classes(targets, len(inputs), "targets")
    classes = _count_classes(model, inputs[:_FIRST_INPUTS])
    _check_range(labels, classes, "labels")
    criterion: Criterion
    if target_classes is None:
        criterion = Misclassification(from_numpy(labels, inputs), margin)
    else:
        _check_range(target_classes, classes, "targets")
        criterion = Targeted(from_numpy(target_classes, inputs), margin)
    logits, initial = _clean(model, inputs, criterion, batch_size, initial_objective)
    _check_finite(logits)
    predictions = np.asarray(to_numpy(namespace(logits).argmax(logits, axis=1)), np.int64)
    solved = np.asarray(to_numpy(criterion.met(logits)), np.bool_)
    return Samples(inputs, labels, criterion, predictions, solved, initial)


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
    native = model.native(x)
    dtype = str(native.dtype).removeprefix("torch.")
    if dtype not in ("float32", "float64"):
        raise InvalidInput(f"x expects float32 or float64, got {dtype}; cast it, and scale it to {model.bounds}")
    if native.ndim < 2 or 0 in native.shape:
        raise InvalidInput(f"x expects one sample or more, shape (n, ...), got {tuple(native.shape)}")
    (low, high), smallest, largest = model.bounds, float(native.min()), float(native.max())  # NaN if there is one
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        count = int((~namespace(native).isfinite(native)).sum())
        raise InvalidInput(f"x expects finite values, got {count} NaN or infinite")
    if smallest < low or largest > high:
        raise InvalidInput(
            f"x expects values within the model's bounds [{low:g}, {high:g}], got [{smallest:g}, {largest:g}]; "
            "scale x, or name its bounds: wrap(model, bounds=(low, high)), in a command --bounds LOW,HIGH"
        )
    return native


def _checked_classes(values: ArrayLike, samples: int, name: str) -> Rows:
    if isinstance(values, Tensor):
        values = values.numpy()
    array: NDArray[np.generic] = to_numpy(values) if hasattr(values, "cpu") else np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} expects integer classes, got dtype {array.dtype}")
    if array.shape != (samples,):
        raise InvalidInput(f"{name} expects one class a sample, shape ({samples},), got {array.shape}")
    return array.astype(np.int64)


def _check_range(values: Rows, classes: int, name: str) -> None:
    if values.min() < 0 or values.max() >= classes:
        raise InvalidInput(
            f"{name} expects classes 0 to {classes - 1}, as the model has {classes} logits; "
            f"got {values.min()} to {values.max()}"
        )


def _count_classes(model: WrappedModel, x: Array) -> int:
    """Return the number of classes, learned from a few inputs: a wrong model or label stops before the work begins."""
    try:
        logits = model.logits(x)
    except InvalidModel:
        raise
    except Exception as error:
        remedy = "; if the model computes in float32, cast x: x.astype('float32')" if "64" in str(x.dtype) else ""
        raise InvalidInput(
            f"the model cannot be called with x of shape {tuple(x.shape)} and dtype {x.dtype}: {error}{remedy}"
        ) from error
    _check_finite(logits)
    if looks_like_probabilities(logits):
        raise InvalidModel(
            "the model must return logits, got rows that are probabilities (non-negative, sum 1); "
            "leave out the softmax: behind it gradients vanish and robustness is overstated"
        )
    return int(logits.shape[1])


def _check_finite(logits: Array) -> None:
    if not all_finite(logits):
        raise InvalidModel("the model must return finite logits for clean inputs, got NaN or infinity")
