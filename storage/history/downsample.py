"""From many points to as many as there are pixels: extremes and non-finite values stay, the rest may go."""

import numpy as np
from numpy.typing import NDArray
from tsdownsample import MinMaxDownsampler


def select_points(values: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Ascending indices of at most `limit` values to draw.

    Every non-finite value is among them (where they alone exceed half of the limit, evenly spaced ones, the first and
    the last included), and the minimum and maximum of each bucket of the finite ones, so the extremes of the whole too.
    """
    if len(values) <= limit:
        return np.arange(len(values))
    finite = np.isfinite(values)
    strange = np.flatnonzero(~finite)
    if len(strange) > limit // 2:
        strange = strange[spaced(len(strange), limit // 2)]
    plain = np.flatnonzero(finite)
    room = max(limit - len(strange), 2) // 2 * 2
    if len(plain) > room:
        # The NaN-aware classes of tsdownsample keep one NaN a bucket; here all are kept apart, so the plain one serves.
        plain = plain[np.unique(MinMaxDownsampler().downsample(np.ascontiguousarray(values[plain]), n_out=room))]
    return np.sort(np.concatenate([strange, plain]))[:limit] if limit > 1 else np.concatenate([strange, plain])[:limit]


def spaced(count: int, limit: int) -> NDArray[np.int64]:
    """At most `limit` of `count` indices, evenly spaced, the first and the last among them."""
    if count <= limit:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, max(limit, 1)).round().astype(np.int64))


def summarise(
    values: NDArray[np.float64], present: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Smallest and largest finite value (NaN without one), count of non-finite and of present values of each bucket.

    Args:
        values: `(n, sites)`.
        present: `(n, sites)`.
        starts: `(buckets,)`, where each bucket begins; ascending, the first is 0.
    """
    finite = np.isfinite(values)
    if finite.all() and present.all():
        sizes = np.diff(starts, append=len(values))[:, None] * np.ones((1, values.shape[1]), dtype=np.int64)
        low, high = np.minimum.reduceat(values, starts, axis=0), np.maximum.reduceat(values, starts, axis=0)
        return low, high, np.zeros_like(sizes), sizes
    usable = finite & present
    low = np.minimum.reduceat(np.where(usable, values, np.inf), starts, axis=0)
    high = np.maximum.reduceat(np.where(usable, values, -np.inf), starts, axis=0)
    empty = low > high
    low[empty] = high[empty] = np.nan
    strange = np.add.reduceat((present & ~finite).astype(np.int64), starts, axis=0)
    return low, high, strange, np.add.reduceat(present.astype(np.int64), starts, axis=0)
