"""Estimates which parameters a result depends on: share of its variance, correlation, and chance."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage import Json
from .provenance import Provenance
from .run_filters import known_fields, resolve

__all__ = ["Importance", "correlation", "importance", "is_hash", "variance_share"]

#: Groups that numeric values are cut into: enough to show a valley, few enough for a handful of runs each.
_GROUPS = 5
#: A checksum or a commit, as they are stored.
_HASH = re.compile("[0-9a-f]{7,64}")
#: Fewer runs than this say nothing about any parameter. Our choice: five groups of two would have no error left.
_FEWEST = 6
#: Shufflings of the result that chance is judged by: the least p-value is 1 / (1 + this).
_SHUFFLES = 499
#: Fields that a person sets, or that differ between runs by intent.
_CAUSES = (
    "tag.", "argument.", "optimizer", "config.", "data.", "model.", "git.", "machine.", "package.", "framework",
    "ranks",
)  # fmt: skip

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """What one parameter has to do with the result.

    Args:
        share: Share of the result's variance that lies between groups of runs with a like value, 0 to 1, corrected for
            what chance alone puts there.
        correlation: Of ranks, -1 to 1; NaN for what is no number. A small one beside a large share is a valley.
        p_value: How often as large a share came about when results were dealt to runs at random.
        runs: How many have both.
    """

    field: str
    share: float
    correlation: float
    p_value: float
    runs: int


def importance(
    rows: Sequence[Provenance], result: str, *, fields: Sequence[str] | None = None, seed: int = 0
) -> tuple[Importance, ...]:
    """Return the parameters that differ between runs, the most important first.

    Args:
        result: The field that is to be explained, `loss` for `result.loss`.
        fields: The parameters; by default all settings that differ between the runs and are no hashes.
        seed: Of the shuffling.

    Raises:
        UnknownField: No run has the result, or one of the fields.
    """
    known = known_fields(rows)
    target = f"result.{result}" if f"result.{result}" in known else resolve(result, known)
    names = [resolve(name, known) for name in fields] if fields is not None else _causes(rows, known)
    scored = [row for row in rows if np.isfinite(row.number(target))]
    rng = np.random.default_rng(seed)
    found = [made for name in names if name != target and (made := _importance(scored, name, target, rng)) is not None]
    return tuple(sorted(found, key=lambda entry: (-entry.share, entry.p_value, entry.field)))


def _causes(rows: Sequence[Provenance], fields: Sequence[str]) -> list[str]:
    return [name for name in fields if name.startswith(_CAUSES) and not is_hash(row.fields.get(name) for row in rows)]


def is_hash(values: Iterable[Json]) -> bool:
    """Return whether all values are checksums or commits, which name a thing and explain nothing by themselves."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, str) and _HASH.fullmatch(value) is not None for value in known)


def _importance(rows: Sequence[Provenance], name: str, target: str, rng: np.random.Generator) -> Importance | None:
    """Return the field's importance; None if it has one value, a different one per run, or too few runs."""
    there = [row for row in rows if row.fields.get(name) is not None]
    values = [row.fields[name] for row in there]
    if len(there) < _FEWEST or len({str(value) for value in values}) < 2:
        return None
    y = np.array([row.number(target) for row in there])
    groups = _groups(values)
    share = variance_share(groups, y)
    if np.isnan(share):
        return None
    is_number = all(isinstance(value, int | float) for value in values)
    ranked = correlation(np.array(values, dtype=np.float64), y) if is_number else float("nan")
    return Importance(name, max(share, 0.0), ranked, _chance(groups, y, rng), len(there))


def _chance(groups: NDArray[np.intp], y: Floats, rng: np.random.Generator) -> float:
    """Share of shufflings in which as much of the variance lies between the groups, this one among them.

    Reference:
        Phipson and Smyth 2010, Statistical Applications in Genetics 9:39, eq. 2: why never zero.
    """
    belongs = (groups[:, None] == np.unique(groups)).astype(np.float64)
    dealt = rng.permuted(np.tile(y - y.mean(), (1 + _SHUFFLES, 1)), axis=1)
    dealt[0] = y - y.mean()
    between = ((dealt @ belongs) ** 2 / belongs.sum(axis=0)).sum(axis=1)
    return float((between >= between[0] * (1.0 - 1e-12)).mean())


def _groups(values: Sequence[Json]) -> NDArray[np.intp]:
    """Return each value's group number: words by word, numbers by quintile, ties together."""
    if not all(isinstance(value, int | float) for value in values):
        return np.unique([str(value) for value in values], return_inverse=True)[1]
    numbers = np.array(values, dtype=np.float64)
    if len(np.unique(numbers)) <= _GROUPS:
        return np.unique(numbers, return_inverse=True)[1]
    edges = np.quantile(numbers, np.linspace(0.0, 1.0, _GROUPS + 1)[1:-1])
    return np.searchsorted(np.unique(edges), numbers, side="left")


def variance_share(groups: NDArray[np.intp], y: Floats) -> float:
    """Share of the variance of `y` that lies between the groups, unbiased: epsilon squared.

    Args:
        groups: `(n,)` number of the group of each value.
        y: `(n,)` finite.

    Returns:
        At most 1; about 0, and as often below as above, where groups and values have nothing to do with each other.
        NaN where every value is a group of its own; 0 where `y` is constant.

    Reference:
        Kelley 1935, PNAS 21:554: the correlation ratio without its bias. It estimates the first-order index of
        Sobol 1993, Mathematical Modelling and Computational Experiment 1:407.
    """
    _, groups, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(counts) >= len(y):
        return float("nan")
    total = float(((y - y.mean()) ** 2).sum())
    if total == 0.0:
        return 0.0
    means = np.bincount(groups, weights=y) / counts
    within = float(((y - means[groups]) ** 2).sum())
    return 1.0 - (within / (len(y) - len(counts))) / (total / (len(y) - 1))


def correlation(x: Floats, y: Floats) -> float:
    """Spearman's correlation of ranks, ties sharing their mean rank; NaN where one of them is constant.

    Reference:
        Spearman 1904, American Journal of Psychology 15:72.
    """
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 0.0 else float("nan")


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2.0)[inverse]
