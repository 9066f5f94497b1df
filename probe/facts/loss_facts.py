"""Which loss the training uses and what it is given: inputs and labels, from a small, ever rarer sample."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from ..kernels.fingerprints import checksum_of

Domain = Literal["logits", "probabilities", "log_probabilities", "unit_interval", "constant", "non_finite", "empty"]


def domain_of(sample: NDArray[Any]) -> Domain:
    """Classify the rows of a sample, as exactly as their precision allows.

    Rows that sum to one with every element in [0, 1] are `probabilities`, rows whose exponentials do are
    `log_probabilities`; both need at least two columns. Elements strictly between 0 and 1 without that are
    `unit_interval`, as a sigmoid gives; equal ones everywhere `constant`, which fits several. All else is `logits`.

    Args:
        sample: `(rows, columns)` of any floating dtype. Rounding may move a row's sum by one unit of the dtype's last
            place for each column, and that much is allowed.
    """
    if sample.size == 0:
        return "empty"
    values = np.asarray(sample, dtype=np.float64)
    if np.isnan(values).any() or np.isposinf(values).any():
        return "non_finite"
    columns = values.shape[-1]
    slack = columns * _unit(sample.dtype) * 4.0
    if columns > 1 and values.min() >= 0.0 and values.max() <= 1.0 and _is_one(values.sum(-1), slack):
        return "probabilities"
    if columns > 1 and values.max() <= slack and _is_one(np.exp(values).sum(-1), slack * _size(values)):
        return "log_probabilities"
    if np.isneginf(values).any():
        return "non_finite"
    if values.min() == values.max():
        return "constant"
    return "unit_interval" if values.min() > 0.0 and values.max() < 1.0 else "logits"


def _is_one(sums: NDArray[np.float64], slack: float) -> bool:
    return bool((np.abs(sums - 1.0) <= slack).all())


def _size(values: NDArray[np.float64]) -> float:
    """Return how much larger than one the finite values are: rounding before exponentiation is relative to them."""
    finite = values[np.isfinite(values)]
    return max(1.0, float(np.abs(finite).max())) if finite.size else 1.0


def _unit(dtype: np.dtype[Any]) -> float:
    """Return one unit in the last place of numbers near one."""
    if dtype.name == "bfloat16":
        return 2.0**-7
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 1e-7


#: Labels beyond this many classes are not counted any more.
_MOST: Final = 1 << 16


class Targets:
    """Counts the class labels of the calls that are looked at; scalars `target/entropy`, `/classes`, `/counted`.

    `target/checksum` tells whether the labels of two batches are the same. `target/own_entropy` is that of this
    call's labels alone, and `target/own_top` the most frequent of them: labels in their order show there.
    """

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def look(self, target: NDArray[Any]) -> Mapping[str, float]:
        """Count labels `(...)` of any integer dtype and return the scalars; negative labels are ignored, as losses do.

        Reals are no classes: of them there is nothing to tell.
        """
        if target.dtype.kind not in "iu" or not target.size:
            return {}
        flat = np.ascontiguousarray(target).reshape(-1)
        labels = flat[flat >= 0]
        if not labels.size or labels.max() >= _MOST:
            return {}
        counts = np.bincount(labels.astype(np.int64), minlength=self._counts.size)
        own = counts[counts > 0] / counts.sum()
        top = int(counts.argmax())
        counts[: self._counts.size] += self._counts
        self._counts = counts
        shares = counts[counts > 0] / counts.sum()
        return {
            "target/entropy": abs(float((shares * np.log(shares)).sum())),
            "target/classes": float(shares.size),
            "target/counted": float(counts.sum()),
            "target/checksum": float(checksum_of(flat)),
            "target/own_entropy": abs(float((own * np.log(own)).sum())),
            "target/own_top": float(top),
            "target/own_counted": float(labels.size),
        }


class TwoLabels:
    """Counts labels that are given as real zeros and ones, one for each sample.

    Scalar `target/binary_entropy` is the entropy of all so far; `target/own_*` are as those of whole numbers.
    """

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(2, np.int64)

    def look(self, target: NDArray[Any]) -> Mapping[str, float]:
        """Count labels `(samples,)` or `(samples, 1)`; empty for any other target."""
        is_plain = target.dtype.kind == "f" and target.ndim > 0 and target.size == target.shape[0] > 0
        if not is_plain or not bool(((target == 0) | (target == 1)).all()):
            return {}
        own = np.bincount(target.reshape(-1).astype(np.int64), minlength=2)
        self._counts += own
        return {
            "target/binary_entropy": _entropy(self._counts),
            "target/own_entropy": _entropy(own),
            "target/own_top": float(own.argmax()),
            "target/own_counted": float(target.size),
        }


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return abs(float((shares * np.log(shares)).sum()))


#: Columns of a target that have a best constant each; of more, all elements share one.
_MOST_TARGET_COLUMNS: Final = 64
_CLIP = 1e-12


class ConstantGuess:
    """Computes what the best constant answer would cost, from the real targets of the calls that are looked at.

    The best constant is the mean of each column for squared errors and binary cross-entropy, the median for absolute
    errors. Scalar `target/constant_loss`, comparable with a loss that is averaged over all elements.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sums: NDArray[np.float64] = np.zeros(0)
        self._squares: NDArray[np.float64] = np.zeros(0)
        self._spreads: list[float] = []

    def look(self, loss: str, target: NDArray[Any]) -> Mapping[str, float]:
        """Take real targets `(rows, columns)` of any shape and return the scalar; empty where nothing can be said.

        Args:
            loss: `mse_loss`, `l1_loss`, `binary_cross_entropy` or `binary_cross_entropy_with_logits`; none other.
        """
        if target.dtype.kind != "f" or target.size < 2 or not np.isfinite(target).all():
            return {}
        rows = _columns_of(np.asarray(target, dtype=np.float64))
        if self._count and rows.shape[1] != self._sums.size:
            return {}
        if not self._count:
            self._sums, self._squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        self._count += rows.shape[0]
        self._sums += rows.sum(0)
        self._squares += (rows**2).sum(0)
        means = self._sums / self._count
        if loss == "mse_loss":
            found = float(np.maximum(self._squares / self._count - means**2, 0.0).mean())
        elif loss == "l1_loss":
            self._spreads.append(float(np.abs(rows - np.median(rows, axis=0)).mean()))
            found = float(np.mean(self._spreads))
        elif loss.startswith("binary_cross_entropy") and means.min() >= 0.0 and means.max() <= 1.0:
            shares = np.clip(means, _CLIP, 1.0 - _CLIP)
            found = float(-(means * np.log(shares) + (1.0 - means) * np.log(1.0 - shares)).mean())
        else:
            return {}
        return {"target/constant_loss": found} if found > 0.0 else {}


def _columns_of(target: NDArray[np.float64]) -> NDArray[np.float64]:
    if target.ndim == 2 and 1 < target.shape[1] <= _MOST_TARGET_COLUMNS and target.shape[0] > 1:
        return target
    return target.reshape(-1, 1)


_Rows = TypeVar("_Rows", bound=Any)
#: Rows of the sample: enough to tell probabilities from chance, too few to cost anything; and elements, of which fewer
#: may look like anything.
_ROWS, _ELEMENTS = 8, 64
#: From then on every so many calls one is looked at; before it the first three and every power of two (our choice).
_EVERY = 16
_FIRST = 3


@dataclass(frozen=True, slots=True)
class LossCall:
    """One call of a loss.

    Args:
        name: `cross_entropy`, `nll_loss`, `binary_cross_entropy` and so on: torch's words, whichever the framework.
        sample: Makes `(rows, columns)` of its input, classes along the columns.
        shapes: Of input and target, where they are known.
        options: `reduction` and whatever else is plain.
        target: Makes an array of what the input is compared with; None where that is not known.
        made_by: The operation that made its input, in lower case (`sigmoid`), views left out; empty where not known.
        module: Finds the module whose parameters came last on the way to its input; likewise.
    """

    name: str
    sample: Callable[[], NDArray[Any]]
    shapes: tuple[tuple[int, ...], ...] = ()
    options: Mapping[str, Json] | None = None
    target: Callable[[], NDArray[Any]] | None = None
    made_by: str = ""
    module: Callable[[], str] = str


#: What each loss can be asked for, smallest and largest target. One half beyond probabilities is allowed: labels of
#: 0.7 to 1.2 for a judge are meant (Salimans et al. 2016, arXiv:1606.03498, one-sided smoothing, and what came of it).
_ASKED_FOR: Final[Mapping[str, tuple[float, float]]] = {
    "binary_cross_entropy": (-0.5, 1.5),
    "binary_cross_entropy_with_logits": (-0.5, 1.5),
    "cross_entropy": (-0.5, 1.5),
    "poisson_nll_loss": (-1e-2, float("inf")),
    "kl_div": (-1e-2, float("inf")),
    "kl_div of logarithms": (float("-inf"), 1e-2),
}
#: Losses whose real targets tell something.
OF_TARGETS: Final = frozenset(name.partition(" ")[0] for name in _ASKED_FOR)


def strange_targets(call: LossCall, target: NDArray[Any]) -> dict[str, Json]:
    """Return the smallest and largest target, `target_min` and `target_max`, where the loss cannot mean one of them.

    Class numbers are left out, as are losses that are not reduced: the training may leave out such targets later.
    """
    options = call.options or {}
    name = f"{call.name} of logarithms" if options.get("log_target") else call.name
    low, high = _ASKED_FOR.get(name, (float("-inf"), float("inf")))
    if target.dtype.kind != "f" or not target.size or options.get("reduction") == "none":
        return {}
    least, most = float(target.min()), float(target.max())
    return {"target_min": least, "target_max": most} if least < low or most > high else {}


class LossFacts:
    """Tells of every loss once, and again when the domain of its input has changed.

    A domain that was told too early is corrected: an event replaces the one before it.
    """

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._targets = Targets()
        self._guess, self._two = ConstantGuess(), TwoLabels()

    def is_due(self, name: str) -> bool:
        """Count this call of the loss and return whether it is due for a look."""
        count = self._calls.get(name, 0) + 1
        self._calls[name] = count
        return count <= _FIRST or count % _EVERY == 0 or (count < _EVERY and count & (count - 1) == 0)

    def look(self, call: LossCall) -> tuple[Mapping[str, float], dict[str, Json]]:
        """Return label scalars, and what is new about the input for an event `loss_input`; both may be empty."""
        scalars: Mapping[str, float] = {}
        strange: dict[str, Json] = {}
        if call.target is not None:
            target = call.target()
            strange = strange_targets(call, target)
            scalars = self._targets.look(target)
            is_mean = (call.options or {}).get("reduction", "mean") == "mean"
            if not scalars and is_mean and len(self._calls) == 1:  # of several losses, none has the others' targets
                scalars = self._guess.look(call.name, target)
            if call.name.startswith("binary_cross_entropy") and len(self._calls) == 1:
                scalars = {**scalars, **self._two.look(target)}
        return scalars, self._news(call, call.sample(), strange)

    def _news(self, call: LossCall, sample: NDArray[Any], strange: Mapping[str, Json]) -> dict[str, Json]:
        domain = domain_of(sample)
        before = self._told.get(call.name)
        if domain in ("constant", "non_finite", "empty") and before is not None:
            return {}  # says nothing about what the numbers are meant to be
        facts = (domain, sample.shape[-1] if sample.ndim else 0, bool(strange))
        if before == facts:
            return {}
        self._told[call.name] = facts
        finite = sample[np.isfinite(sample.astype(np.float64))] if sample.size else sample
        sums = sample.astype(np.float64).sum(-1) if sample.size else np.zeros(1)
        return {
            "loss": call.name,
            "domain": domain,
            "columns": facts[1],
            "made_by": call.made_by or None,
            "module": call.module() or None,
            "values": int(sample.size),
            "min": float(finite.min()) if finite.size else None,
            "max": float(finite.max()) if finite.size else None,
            "row_sum_min": float(sums.min()) if np.isfinite(sums).all() else None,
            "row_sum_max": float(sums.max()) if np.isfinite(sums).all() else None,
            "shapes": [list(shape) for shape in call.shapes],
            "options": dict(call.options or {}),
            **strange,
        }


def some_of(rows: _Rows) -> _Rows:
    """Sample the rows `(rows, columns)` of any framework, evenly spread, with all their columns."""
    wanted = max(_ROWS, -(-_ELEMENTS // max(1, rows.shape[1])))
    sample: _Rows = rows[:: max(1, rows.shape[0] // wanted)][:wanted]
    return sample
