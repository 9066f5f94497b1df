"""What the numbers that models return mean: logits, one logit, probabilities or labels, all read as logits."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, cast, from_numpy, namespace, to_numpy
from ..errors import InvalidInput, InvalidModel

Returns = Literal["logits", "probabilities", "labels"]
Classes = NDArray[np.generic]  # `(classes,)` the labels that a model knows, in the order of its columns

#: Probabilities below it count as it: the smallest normal number of float32, so that every logarithm is finite.
_SMALLEST: Final = float(np.finfo(np.float32).tiny)


class Reading(Protocol):
    """How an array that a model returned is read as logits."""

    @property
    def has_scores(self) -> bool:
        """False where the logits tell no more than the class."""

    def logits(self, raw: Array) -> Array:
        """Return `(n, classes)` logits."""

    def cotangent(self, raw: Array, cotangent: Array) -> Array:
        """Return the gradient to `raw`, of its shape and dtype, of the product of the logits with `cotangent`."""


@dataclass(frozen=True, slots=True)
class Logits:
    """One column a class."""

    has_scores: bool = True

    def logits(self, raw: Array) -> Array:
        """Return them, widened to float32 where they are shorter."""
        return _widened(raw)

    def cotangent(self, raw: Array, cotangent: Array) -> Array:
        """Return the cotangent."""
        return cast(cotangent, raw)


@dataclass(frozen=True, slots=True)
class OneLogit:
    """One number z for two classes, whose logits are 0 and z: `softmax((0, z))[1]` is the logistic function of z."""

    has_scores: bool = True

    def logits(self, raw: Array) -> Array:
        """Return 0 and the number."""
        column = _widened(raw).reshape(-1, 1)
        return namespace(column).concat([namespace(column).zeros_like(column), column], axis=1)

    def cotangent(self, raw: Array, cotangent: Array) -> Array:
        """Return the second column."""
        return cast(cotangent[:, 1], raw).reshape(raw.shape)


@dataclass(frozen=True, slots=True)
class Probabilities:
    """One column a class, or the probability of the second of two; the logits are their logarithms."""

    has_scores: bool = True

    def logits(self, raw: Array) -> Array:
        """Return logarithms, of at least the smallest normal float32."""
        shares = self._columns(raw)
        xp = namespace(shares)
        return xp.log(xp.clip(shares, _SMALLEST, None))

    def cotangent(self, raw: Array, cotangent: Array) -> Array:
        """Return the cotangent over the probabilities, 0 where these are below the smallest."""
        shares = self._columns(raw)
        xp = namespace(shares)
        slope = xp.where(shares > _SMALLEST, cotangent / xp.clip(shares, _SMALLEST, None), xp.zeros_like(shares))
        return cast(slope if _is_rows(raw) else (slope[:, 1] - slope[:, 0]).reshape(raw.shape), raw)

    @staticmethod
    def _columns(raw: Array) -> Array:
        values = _widened(raw)
        if _is_rows(raw):
            return values
        column = values.reshape(-1, 1)
        return namespace(column).concat([1.0 - column, column], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """One class a sample: the logits are 0 for it and the same low number for the others."""

    classes: Classes
    has_scores: bool = False

    def logits(self, raw: Array) -> Array:
        """Return float32 logits on the device of `raw`."""
        chosen = class_indices(to_numpy(raw).reshape(-1), self.classes)
        rows = np.where(np.arange(len(self.classes)) == chosen[:, None], 0.0, np.log(_SMALLEST)).astype(np.float32)
        return from_numpy(rows, raw)

    def cotangent(self, raw: Array, cotangent: Array) -> Array:
        """Refuse: labels have no gradient."""
        raise InvalidModel("the model returns labels, which have no gradient")


def class_indices(labels: NDArray[np.generic], classes: Classes) -> NDArray[np.int64]:
    """Return `(n,)` positions of labels among the classes.

    Raises:
        InvalidInput: A label is none of the classes.
    """
    order = np.argsort(classes, kind="stable")
    at = np.searchsorted(classes[order], labels).clip(0, len(classes) - 1)
    found = order[at]
    wrong = classes[found] != labels
    if wrong.any():
        raise InvalidInput(f"labels expects the classes of the model, {_few(classes)}; got {labels[wrong][0]!r}")
    return np.asarray(found, np.int64)


def find_reading(raw: Array, samples: int, returns: Returns | None, classes: Classes | None) -> Reading:
    """Return how to read what a model returned for a few inputs.

    Args:
        raw: `(samples,)` or `(samples, columns)`.
        returns: What the user says that it is; None decides by shape, dtype and values.
        classes: Needed for labels.

    Raises:
        InvalidModel: It is nothing that can be read as logits; the message says how to mend it.
    """
    check_shape(raw, samples)
    if returns == "labels" or (not _is_rows(raw) and not _is_real(raw)):
        return _labels(raw, classes)
    if not _is_rows(raw):
        return _one_column(raw, returns)
    if returns == "probabilities" or (returns is None and looks_like_probabilities(raw)):
        return Probabilities(has_scores=not _is_one_hot(raw))
    return Logits()


def check_shape(raw: Array, samples: int) -> None:
    """Raise `InvalidModel` unless there is one row, or one number, for each sample."""
    shape = tuple(getattr(raw, "shape", ()))
    if len(shape) not in (1, 2) or shape[0] != samples or shape[-1] == 0:
        raise InvalidModel(
            f"the model must return logits ({samples}, classes), or one logit or label a sample, ({samples},), for "
            f"{samples} inputs, got {f'shape {shape}' if hasattr(raw, 'shape') else type(raw).__name__}; "
            "name the field that holds them with wrap(model, output=...), or wrap a function that returns them"
        )


def _labels(raw: Array, classes: Classes | None) -> Labels:
    if _is_rows(raw):
        raise InvalidModel(f"the model must return one label a sample, got shape {tuple(raw.shape)}")
    if classes is None:
        raise InvalidModel(
            "the model returns labels and does not say of how many classes; wrap(model, classes=10), or a list of them"
        )
    return Labels(classes)


def _one_column(raw: Array, returns: Returns | None) -> Reading:
    values = to_numpy(_widened(raw))
    if returns == "probabilities":
        return Probabilities()
    if returns is None and bool(np.all((values >= 0) & (values <= 1))):
        raise InvalidModel(
            f"the model returns one number from 0 to 1 a sample, shape {tuple(raw.shape)}: a probability or a logit; "
            "say which: wrap(model, returns='probabilities') or wrap(model, returns='logits')"
        )
    return OneLogit()


def looks_like_probabilities(logits: Array) -> bool:
    """Return whether every row is non-negative and sums to 1, which logits practically never do."""
    values = _widened(logits)
    xp = namespace(values)
    return bool(xp.all(values >= 0)) and bool(xp.all(xp.abs(xp.sum(values, axis=1) - 1.0) < _tolerance(logits)))


def _tolerance(raw: Array) -> float:
    return 0.02 if "16" in str(raw.dtype) else 1e-4  # a sum of numbers rounded to 8 or 11 bits


def _is_one_hot(raw: Array) -> bool:
    values = to_numpy(_widened(raw))
    return bool(np.all((values == 0) | (values == 1)))


def _is_rows(raw: Array) -> bool:
    return len(raw.shape) == 2 and int(raw.shape[1]) > 1


def _is_real(raw: Array) -> bool:
    return "float" in str(raw.dtype)


def _widened(raw: Array) -> Array:
    """Convert to float32 what is no float32 or float64."""
    if str(raw.dtype).removeprefix("torch.") in ("float32", "float64"):
        return raw
    return raw.astype(np.float32) if isinstance(raw, np.ndarray) else namespace(raw).astype(raw, namespace(raw).float32)


def checked_classes(classes: int | object | None) -> Classes | None:
    """Return the labels of the classes: 0 to n - 1 for a number n.

    Raises:
        InvalidInput: There are fewer than two.
    """
    if classes is None:
        return None
    labels = np.arange(classes) if isinstance(classes, int) else np.asarray(classes)
    if labels.ndim != 1 or len(np.unique(labels)) < max(len(labels), 2):
        raise InvalidInput(f"classes expects a number of 2 or more, or a list of different labels, got {classes!r}")
    return labels


def checked_returns(returns: str | None) -> Returns | None:
    """Return the word; raise `InvalidInput` for an unknown one."""
    words: dict[str, Returns] = {word: word for word in get_args(Returns)}
    if returns is None:
        return None
    if returns not in words:
        raise InvalidInput(f"returns expects {', '.join(words)}, got {returns!r}")
    return words[returns]


def _few(classes: Classes) -> str:
    shown = ", ".join(map(str, classes[:6].tolist()))
    return shown + (", ..." if len(classes) > 6 else "")
