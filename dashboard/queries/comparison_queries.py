"""Two runs side by side: where they diverge, in what they differ, and how far apart one metric lies."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.compare import Alignment, Comparison, compare
from ...insight.compare.pairing import align
from ...storage import Matrix, Run
from .reader import Reader

_COLUMNS: Final = 300


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first place where two runs lie farther apart than they may."""

    step: int
    site: str
    difference: float


def comparison(reader: Reader, first: Run, second: Run) -> Comparison:
    """Compare the two recordings, reading both up to where they diverge."""
    key = ("compare", second.id, reader.version(second.id))
    return reader.cached(first.id, key, lambda store: compare((store, store), (first, second)))


def model_of(reader: Reader, run: Run) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return names and shapes of the run's parameters, by which two runs have the same model; empty without any."""
    return tuple((info.site, info.shape) for info in reader.structure(run.id).parameters)


def alignment(reader: Reader, first: Run, second: Run) -> Alignment:
    """Match the sites of the second run to those of the first."""
    return align(reader.structure(first.id), reader.structure(second.id))


def common_metrics(reader: Reader, first: Run, second: Run) -> tuple[str, ...]:
    """Return the metrics and scalars that both have, scalars first."""
    both = set(reader.all_metrics(first.id)) & set(reader.all_metrics(second.id))
    return tuple(sorted(both, key=lambda name: (not name.startswith("scalar/"), name)))


def difference_matrix(reader: Reader, first: Run, second: Run, metric: str) -> Matrix:
    """Return how far a metric differs, relative to the larger value, at every site and step that both have.

    What is finite in one only counts as non-finite. Steps that only one of them has are left out.
    """
    span = min(first.last_step, second.last_step)
    first_matrix, other = (_whole(reader, run, metric, span) for run in (first, second))
    pairs = alignment(reader, first, second).pairs
    rows_of_other = {site: row for row, site in enumerate(other.sites)}
    rows = [
        (row, rows_of_other[counterpart])
        for row, site in enumerate(first_matrix.sites)
        if (counterpart := pairs.get(site, site)) in rows_of_other
    ]
    _, left, right = np.intersect1d(first_matrix.steps, other.steps, return_indices=True)
    mine, theirs = np.array([row for row, _ in rows], int), np.array([row for _, row in rows], int)
    a, b = _part(first_matrix, mine, left), _part(other, theirs, right)
    both = (a.present > 0) & (b.present > 0)
    apart = np.where(both, np.fmax(_relative(a.low, b.low), _relative(a.high, b.high)), np.nan)
    torn = both & ((a.non_finite > 0) != (b.non_finite > 0))
    sites = tuple(first_matrix.sites[row] for row, _ in rows)
    torn_counts, present = torn.astype(np.int64), both.astype(np.int64)
    steps = first_matrix.steps[left]
    return Matrix(metric, sites, steps, low=apart, high=apart, non_finite=torn_counts, present=present)


def _whole(reader: Reader, run: Run, metric: str, last: int) -> Matrix:
    key = ("whole", metric, last)
    return reader.cached(run.id, key, lambda store: store.matrix(run.id, metric, first=0, last=last, limit=_COLUMNS))


def _part(matrix: Matrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Matrix:
    parts = (matrix.low, matrix.high, matrix.non_finite, matrix.present)
    return Matrix(matrix.metric, (), matrix.steps, *(part[np.ix_(rows, columns)] for part in parts))  # type: ignore[arg-type]  # arrays of two dtypes


def _relative(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    scale = np.maximum(np.abs(first), np.abs(second))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, np.abs(first - second) / scale, np.where(np.isnan(scale), np.nan, 0.0))


def first_difference(apart: Matrix, tolerance: float) -> FirstDifference | None:
    """Return the first step, and at it the first site, with a difference above the tolerance."""
    with np.errstate(invalid="ignore"):
        beyond = (apart.high > tolerance) | (apart.non_finite > 0)
    columns = np.flatnonzero(beyond.any(axis=0))
    if not columns.size:
        return None
    row = int(np.argmax(beyond[:, columns[0]]))
    difference = np.inf if apart.non_finite[row, columns[0]] else apart.high[row, columns[0]]
    return FirstDifference(int(apart.steps[columns[0]]), apart.sites[row], float(difference))
