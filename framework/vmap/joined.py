"""The batch axis joined with another axis of a sample, and taken apart again."""

from typing import Any

from ..ops.array import reshape as reshaped
from ..ops.array import transpose as transposed


def merged(x: Any, axis: int) -> Any:
    """The batch axis (0) joined with axis `axis` of a sample, samples first."""
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    shape = x.shape[1:]
    whole = (*shape[:axis], x.shape[0] * shape[axis], *shape[axis + 1 :])
    return reshaped(x if axis == 0 else transposed(x, order), whole)


def parted(x: Any, axis: int, size: int) -> Any:
    """What `merged` has joined, taken apart: the batch axis in front again."""
    shape = (*x.shape[:axis], size, x.shape[axis] // (size or 1), *x.shape[axis + 1 :])
    whole = reshaped(x, shape)
    return whole if axis == 0 else transposed(whole, (axis, *range(axis), *range(axis + 1, whole.ndim)))
