"""What every metric promises: it can be cleared, fed batch by batch, and asked."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...dtype import Array
from ...tensor import Tensor

#: Metrics by the names that `Model` takes; the files of the metrics enter them.
METRICS: "dict[str, Callable[[], Metric]]" = {}

#: Predictions or targets of a batch: a tensor, an array, or lists of numbers.
Samples: TypeAlias = Tensor | ArrayLike

_Make = TypeVar("_Make", bound="Callable[[], Metric]")


class Metric(ABC):
    """A number (or some) about predictions, gathered over batches."""

    def __init__(self) -> None:
        self.clear()

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, prediction: Samples, target: Samples) -> None:
        """Count the batch: tensors, arrays or lists."""

    @abstractmethod
    def eval(self) -> object:
        """Return the value over all batches since `clear`.

        Raises:
            ValueError: There was none.
        """

    def _none_seen(self) -> ValueError:
        return ValueError(f"{type(self).__name__} has seen no batch; call update() before eval()")


def metric(*names: str) -> Callable[[_Make], _Make]:
    """Return a decorator that enters a class (or what makes a metric) under these names."""

    def enter(make: _Make) -> _Make:
        for name in names:
            METRICS[name] = make
        return make

    return enter


def metric_of(name: str) -> Metric:
    """Return a new metric of that name.

    Raises:
        ValueError: There is none; the message has the nearest known name.
    """
    if name not in METRICS:
        near = get_close_matches(name, METRICS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(METRICS))}"
        raise ValueError(f"no metric {name!r}{hint}")
    return METRICS[name]()


def as_values(value: Samples) -> Array:
    """Return the array behind a tensor, an array or a list."""
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def classes_of(who: Metric, prediction: Samples, target: Samples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the predicted and the right classes, one-dimensional, from scores `(..., classes)` or classes `(...)`.

    Raises:
        ValueError: Their shapes do not fit together.
    """
    scores, labels = as_values(prediction), as_values(target)
    if scores.ndim == labels.ndim + 1 and scores.shape[:-1] == labels.shape:
        scores = scores.argmax(-1)
    elif scores.shape == labels.shape and scores.ndim > 1 and labels.dtype.kind == "f":
        scores, labels = scores.argmax(-1), labels.argmax(-1)  # one-hot targets
    if scores.shape != labels.shape:
        raise ValueError(
            f"{type(who).__name__} expects scores (..., classes) or classes (...) for targets {labels.shape}, "
            f"got {scores.shape}"
        )
    return scores.reshape(-1).astype(np.int64), labels.reshape(-1).astype(np.int64)
