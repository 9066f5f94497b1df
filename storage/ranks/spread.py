"""How values spread over ranks: extremes and who has them, mean, and a sketch of the quantiles; spreads can be merged.

The sketch holds the `POINTS` midpoint quantiles of the ranks, each for the same share of them. Merging takes those
quantiles of the weighted points of all parts (Munro and Paterson 1980; Manku, Rajagopalan and Lindsay 1998,
"Approximate medians"). Each level of merging shifts a rank among the sorted values by at most half a point's share, so
that a tree of `n` levels is off by at most `(n + 1) / (2 * POINTS)` of the ranks. Everything else is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]
#: Points of a sketch.
POINTS: Final = 64
#: The share of the ranks below each quantile that is stored.
LEVELS: Final = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
#: The standard deviation of a normal distribution in median absolute deviations.
_SIGMA: Final = 1.4826
#: A rank is an outlier beyond so many standard deviations, and beyond this share of the median. Our choice: of a
#: million values at a step, as 4,096 ranks have at 200 sites, none should pass by chance.
_FAR: Final = 10.0
_SHARE: Final = 0.05
#: Where all but 3 % of the ranks have the same value, one with another is an outlier; rounding is less. Where only more
#: than half have it, as many counts do, none is.
_SAME: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The spread of some cells over ranks; every array but the points has the shape of the cells.

    Args:
        count: How many ranks have a finite value.
        non_finite: How many ranks have NaN or an infinite value.
        low: The smallest finite value, NaN without one; `high` is the largest.
        low_rank: The first rank that has the smallest value, -1 without one; `high_rank` that of the largest.
        strange_rank: The first rank with a value that is not finite, -1 without one.
        total: The sum of the finite values, float64.
        points: `(*cells, POINTS)`, ascending; NaN without a finite value.
    """

    count: Counts
    non_finite: Counts
    low: Floats
    high: Floats
    low_rank: Counts
    high_rank: Counts
    strange_rank: Counts
    total: NDArray[np.float64]
    points: Floats

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of the finite values, NaN without one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.count > 0, self.total / self.count, np.nan)

    def quantile(self, level: float) -> Floats:
        """Return the value that this share of the ranks does not exceed."""
        return self.points[..., min(int(level * POINTS), POINTS - 1)]

    @property
    def deviation(self) -> Floats:
        """The median absolute deviation from the median."""
        middle = np.abs(self.points - self.quantile(0.5)[..., None])
        return np.sort(middle, axis=-1)[..., POINTS // 2]


def spread_of(values: Floats, ranks: Counts, present: NDArray[np.bool_] | None = None) -> Spread:
    """Return the spread of values over ranks, exactly.

    Args:
        values: `(*cells, ranks)`; a row of ranks should lie together in memory.
        ranks: `(ranks,)`, or as the values: whose values they are.
        present: As the values: where there is a value; None for everywhere.
    """
    usable = np.isfinite(values) if present is None else np.isfinite(values) & present
    count = usable.sum(axis=-1, dtype=np.int64)
    there = np.full(count.shape, values.shape[-1]) if present is None else present.sum(axis=-1, dtype=np.int64)
    plain = bool(usable.all())
    ordered = np.sort(values if plain else np.where(usable, values, np.inf), axis=-1)
    lows, highs = (values, values) if plain else (np.where(usable, values, edge) for edge in (np.inf, -np.inf))
    strange = ~usable if present is None else present & ~usable
    has_any = count > 0
    return Spread(
        count=count,
        non_finite=there - count,
        low=np.where(has_any, ordered[..., 0], np.nan).astype(values.dtype, copy=False),
        high=_taken(ordered, np.maximum(count - 1, 0), has_any),
        low_rank=_rank_at(ranks, lows.argmin(axis=-1), has_any),
        high_rank=_rank_at(ranks, highs.argmax(axis=-1), has_any),
        strange_rank=_rank_at(ranks, strange.argmax(axis=-1), there > count),
        total=(values if plain else np.where(usable, values, 0)).sum(axis=-1, dtype=np.float64),
        points=_points(ordered, count),
    )


def _taken(ordered: Floats, at: Counts, is_there: NDArray[np.bool_]) -> Floats:
    taken = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
    return np.where(is_there, taken, np.nan).astype(ordered.dtype, copy=False)


def _rank_at(ranks: Counts, at: NDArray[np.intp], is_there: NDArray[np.bool_]) -> Counts:
    found = ranks[at] if ranks.ndim == 1 else np.take_along_axis(ranks, at[..., None], axis=-1)[..., 0]
    return np.where(is_there, found, -1)


def _points(ordered: Floats, count: Counts) -> Floats:
    """Return the midpoint quantiles of ascending values, of which the first `count` of each row are finite."""
    middles = (np.arange(POINTS) + 0.5) / POINTS
    if ordered.shape[-1] and (count == ordered.shape[-1]).all():
        return ordered[..., (middles * ordered.shape[-1]).astype(np.int64)]
    at = np.maximum((middles * count[..., None]).astype(np.int64), 0)
    taken = np.take_along_axis(ordered, at, axis=-1)
    return np.where((count > 0)[..., None], taken, np.nan).astype(ordered.dtype, copy=False)


def merge_spreads(parts: Sequence[Spread]) -> Spread:
    """Return the spread over the ranks of all parts, which have the same cells and no rank in common."""
    columns = {field.name: np.stack([getattr(part, field.name) for part in parts]) for field in fields(Spread)}
    count, lows, highs = columns["count"], columns["low"], columns["high"]
    has_any = count > 0
    least = np.where(has_any, lows, np.inf).argmin(axis=0)[None]
    most = np.where(has_any, highs, -np.inf).argmax(axis=0)[None]
    first_strange = (columns["strange_rank"] >= 0).argmax(axis=0)[None]

    def pick(name: str, at: NDArray[np.intp]) -> Any:  # Any: floats or counts
        return np.take_along_axis(columns[name], at, axis=0)[0]

    return Spread(
        count=count.sum(axis=0),
        non_finite=columns["non_finite"].sum(axis=0),
        low=pick("low", least),
        high=pick("high", most),
        low_rank=pick("low_rank", least),
        high_rank=pick("high_rank", most),
        strange_rank=pick("strange_rank", first_strange),
        total=columns["total"].sum(axis=0),
        points=_merged_points(columns["points"], count),
    )


def _merged_points(points: Floats, count: Counts) -> Floats:
    """Return the points of the weighted points `(parts, *cells, POINTS)` of parts with so many finite values."""
    cells = count.shape[1:]
    row = np.moveaxis(points, 0, -2).reshape(*cells, -1)
    if (count == count[:1]).all() and (count > 0).all():
        ordered = np.sort(row, axis=-1)
        return _points(ordered, np.full(cells, ordered.shape[-1], dtype=np.int64))
    weights = np.repeat(np.moveaxis(count, 0, -1), POINTS, axis=-1).astype(np.float64)
    order = np.argsort(row, axis=-1, kind="stable")  # NaN, without weight, comes last
    ordered = np.take_along_axis(row, order, axis=-1)
    sums = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1)
    whole = np.maximum(sums[..., -1:], 1.0)
    middles = (np.arange(POINTS) + 0.5) / POINTS
    # Each row's shares, moved to an interval of its own, make one ascending sequence.
    shift = np.arange(int(np.prod(cells)))[:, None] * 2.0
    shares = (sums / whole).reshape(len(shift), -1) + shift
    at = np.searchsorted(shares.ravel(), (middles + shift).ravel(), side="right").reshape(len(shift), POINTS)
    at = np.minimum(at - np.arange(len(shift))[:, None] * row.shape[-1], row.shape[-1] - 1)
    taken = np.take_along_axis(ordered.reshape(len(shift), -1), at, axis=-1).reshape(*cells, POINTS)
    return np.where((count.sum(axis=0) > 0)[..., None], taken, np.nan).astype(points.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class OutlyingRank:
    """A rank that is far from the others in one cell at least.

    Args:
        cell: Position of the cell, in the order of the flattened cells, where it is farthest.
        value: What it has there.
        middle: The median of the ranks there.
        distance: In standard deviations as estimated by the median absolute deviation; infinite for a value that is not
            finite, or where the others have all the same.
    """

    rank: int
    cell: int
    value: float
    middle: float
    distance: float


def outlying_ranks(
    values: Floats, ranks: Counts, whole: Spread, *, most: int, present: NDArray[np.bool_] | None = None
) -> tuple[OutlyingRank, ...]:
    """Return the ranks that are far from the others, the farthest first, at most so many.

    A rank is far where it is more than 10 standard deviations and 5 % off the median, where all but 3 % of the ranks
    agree and it does not, and where it has a value that is not finite while most have none.

    Args:
        values: `(*cells, ranks)`.
        ranks: `(ranks,)`.
        whole: The spread of the cells over these ranks, or over more of them.
        present: As the values.
    """
    middle = whole.quantile(0.5).ravel()
    values = values.reshape(-1, len(ranks))
    far = _is_far(values, whole, None if present is None else present.reshape(values.shape))
    columns = np.flatnonzero(far.any(axis=0))
    if not len(columns):
        return ()
    cells = np.where(far[:, columns], _distance(values[:, columns], whole), -1.0)
    worst = cells.argmax(axis=0)
    distance = cells[worst, np.arange(len(columns))]
    order = np.argsort(-distance, kind="stable")[: min(most, int((distance > _FAR).sum()))]
    return tuple(
        OutlyingRank(
            int(ranks[columns[at]]),
            int(worst[at]),
            float(values[worst[at], columns[at]]),
            float(middle[worst[at]]),
            float(distance[at]),
        )
        for at in order.tolist()
    )


def outlying_among(parts: Sequence[Spread], whole: Spread, *, most: int) -> tuple[OutlyingRank, ...]:
    """Return the outlying ranks among the extremes of parts, as far as only the spreads are known.

    Of each part and cell the ranks with the smallest, the largest and the first value that is not finite are looked at.
    """
    found: dict[int, OutlyingRank] = {}
    for part in parts:
        for ranks, values in (
            (part.low_rank, part.low),
            (part.high_rank, part.high),
            (part.strange_rank, np.full(part.low.shape, np.nan)),
        ):
            flat = np.where(ranks >= 0, values, np.nan).reshape(-1, 1)
            known = (ranks >= 0).reshape(-1, 1)
            for cell in np.flatnonzero(_is_far(flat, whole, known)[:, 0]).tolist():
                rank = int(ranks.flat[cell])
                middle = float(whole.quantile(0.5).flat[cell])
                distance = float(_distance(flat[cell : cell + 1], whole, cell)[0, 0])
                if distance > max(_FAR, found[rank].distance if rank in found else 0.0):
                    found[rank] = OutlyingRank(rank, cell, float(flat[cell, 0]), middle, distance)
    return tuple(sorted(found.values(), key=lambda outlier: -outlier.distance)[:most])


def _is_far(values: Floats, whole: Spread, present: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Return which of the values `(cells, n)` are far from the median of their cell."""
    middle, width = whole.quantile(0.5).reshape(-1, 1), _width(whole).reshape(-1, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        far = ~(np.abs(values - middle) <= width)
    far &= (whole.count > whole.non_finite).reshape(-1, 1)
    return far if present is None else far & present


def _width(whole: Spread) -> Floats:
    """Return how far from the median a value may lie."""
    middle, sigma = np.abs(whole.quantile(0.5)), _SIGMA * whole.deviation
    with np.errstate(invalid="ignore"):
        agree = whole.points[..., -2] - whole.points[..., 1] <= _SAME * middle
    of_same = np.where(agree, _SAME * middle, np.inf)
    return np.where(sigma > _SAME * middle, np.maximum(_FAR * sigma, _SHARE * middle), of_same)


def _distance(values: Floats, whole: Spread, cell: int | None = None) -> NDArray[np.float64]:
    """Return how many standard deviations values `(cells, n)`, or those of one cell, lie off the median.

    Where nearly all values are positive, as norms and seconds are, it is the smaller of two distances, of the values
    and of their logarithms: what many factors make has a long tail upwards.
    """
    rows = slice(None) if cell is None else slice(cell, cell + 1)
    points = whole.points.reshape(-1, POINTS)[rows].astype(np.float64)
    middle = points[:, POINTS // 2, None]
    sigma = _SIGMA * whole.deviation.reshape(-1, 1)[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.abs(values.astype(np.float64) - middle) / sigma
        logs = np.log(points) - np.log(middle)
        log_sigma = _SIGMA * np.sort(np.abs(logs), axis=1)[:, POINTS // 2, None]
        of_logs = np.abs(np.log(np.maximum(values, 0.0)) - np.log(middle)) / log_sigma
    distance = np.where(points[:, 1, None] > 0.0, np.fmin(distance, of_logs), distance)
    return np.where(np.isfinite(values) & (sigma > _SAME * np.abs(middle)), distance, np.inf)
