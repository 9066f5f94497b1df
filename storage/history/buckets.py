"""Buckets of consecutive records: extremes and counts of each site, made in one pass, joined, stored and read back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoding.codec import all_equal, decode, decode_counts, decode_narrow, encode

#: Buckets, or records, that one bucket of the next tier holds.
RATIO = 16
#: Values of all records that are bucketed at once: a megabyte.
_TOGETHER = 2**17
_ORDER = ("low", "high", "non_finite", "present", "low_at", "high_at")


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Some buckets of some sites.

    Args:
        low: `(sites, buckets)` float64, the smallest finite value, NaN without one; `high` is the largest.
        non_finite: `(sites, buckets)` int64, how many values are NaN or infinite; `present`: how many are.
        low_at: `(sites, buckets)` int64, the position of `low` in its bucket, in records; `high_at` that of `high`.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    present: NDArray[np.int64]
    low_at: NDArray[np.int64]
    high_at: NDArray[np.int64]

    def arrays(self) -> "tuple[NDArray[Any], ...]":  # Any: values and counts
        """Return the six arrays, in the order of the fields."""
        return tuple(getattr(self, name) for name in _ORDER)

    def sites(self, begin: int, end: int) -> "Buckets":
        """Return the buckets of the sites from `begin` to before `end`."""
        return Buckets(*(getattr(self, name)[begin:end] for name in _ORDER))


def bucket_records(values: NDArray[np.float64], present: NDArray[np.bool_]) -> Iterator[Buckets]:
    """Yield by statistic: buckets of `RATIO` records each.

    Args:
        values: `(statistics, records, sites)`; few statistics are looked at together, as many as the caches bear.
        present: `(records, sites)`.
    """
    shape = (values.shape[1] // RATIO, RATIO, values.shape[2])
    there = present.reshape(shape)
    count = there.sum(axis=1, dtype=np.int64)
    together = max(1, _TOGETHER // max(present.size, 1))
    for begin in range(0, len(values), together):
        yield from _bucket_few(values[begin : begin + together].reshape(-1, *shape), there, count)


def _bucket_few(cells: NDArray[np.float64], there: NDArray[np.bool_], count: NDArray[np.int64]) -> Iterator[Buckets]:
    """Yield buckets of `(statistics, buckets, RATIO, sites)`; one object stands for all that hold nothing but zeros."""
    if not there.all():
        yield from _bucket_values(cells, there, count)
        return
    zero = np.zeros(count.T.shape)
    none = np.zeros(zero.shape, dtype=np.int64)
    nothing = Buckets(zero, zero, none, count.T, none, none)
    has_content = [bool(cell.any()) for cell in cells]  # most counts are zero, most of the time
    others = _bucket_values(cells[has_content], there, count)
    for is_kept in has_content:
        yield next(others) if is_kept else nothing


def _bucket_values(cells: NDArray[np.float64], there: NDArray[np.bool_], count: NDArray[np.int64]) -> Iterator[Buckets]:
    finite = np.isfinite(cells) & there
    strange = count - finite.sum(axis=2, dtype=np.int64)
    is_plain = bool(finite.all())
    low, low_at = _extreme(cells if is_plain else np.where(finite, cells, np.inf), np.min)
    high, high_at = _extreme(cells if is_plain else np.where(finite, cells, -np.inf), np.max)
    low[count == strange] = high[count == strange] = np.nan
    for lows, highs, non_finite, low_positions, high_positions in zip(low, high, strange, low_at, high_at, strict=True):
        yield Buckets(lows.T, highs.T, non_finite.T, count.T, low_positions.T, high_positions.T)


def bucket_buckets(parts: Sequence[Buckets], size: int) -> Buckets:
    """Return buckets of `RATIO` of these, which follow each other and hold `size` records each."""
    whole = join(parts)
    shape = (whole.low.shape[0], whole.low.shape[1] // RATIO, RATIO)
    count, strange = whole.present.reshape(shape).sum(axis=2), whole.non_finite.reshape(shape).sum(axis=2)
    low, high = whole.low.reshape(shape), whole.high.reshape(shape)
    lowest = np.where(np.isnan(low), np.inf, low).argmin(axis=2)[..., None]
    highest = np.where(np.isnan(high), -np.inf, high).argmax(axis=2)[..., None]
    return Buckets(
        np.take_along_axis(low, lowest, axis=2)[..., 0],
        np.take_along_axis(high, highest, axis=2)[..., 0],
        strange,
        count,
        (lowest * size + np.take_along_axis(whole.low_at.reshape(shape), lowest, axis=2))[..., 0],
        (highest * size + np.take_along_axis(whole.high_at.reshape(shape), highest, axis=2))[..., 0],
    )


def join(parts: Sequence[Buckets]) -> Buckets:
    """Return buckets of the same sites, one after the other."""
    return Buckets(*(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in _ORDER))


def bucket_bytes(buckets: Buckets) -> bytes:
    """Return the buckets as bytes; `read_buckets` gives them back."""
    parts = [encode(np.ascontiguousarray(getattr(buckets, name), dtype=np.float64)) for name in _ORDER]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def read_buckets(data: bytes, shape: tuple[int, int], rows: slice = slice(None), *, with_positions: bool) -> Buckets:
    """Return the buckets `(sites, buckets)` from their bytes, of these some rows.

    Without positions the last two arrays are zero, and the values as narrow as they are stored.
    """
    parts, at = [], 0
    for _ in _ORDER:
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        parts.append(data[at + 4 : end])
        at = end
    low, high = ((decode if with_positions else decode_narrow)(part, shape, rows) for part in parts[:2])
    counts = [decode_counts(part, shape, rows) for part in (parts[2:] if with_positions else parts[2:4])]
    nowhere = all_equal(np.int64(0), low.shape)
    return Buckets(low, high, *(counts if with_positions else (*counts, nowhere, nowhere)))


def _extreme(
    cells: NDArray[np.float64], reduce: Callable[..., NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the extreme of each bucket of `(..., RATIO, sites)` and its first position; argmin would be slower."""
    extreme = reduce(cells, axis=-2)
    at = np.zeros(extreme.shape, dtype=np.int64)
    for position in range(RATIO - 1, -1, -1):
        np.copyto(at, position, where=cells[..., position, :] == extreme)
    return extreme, at
