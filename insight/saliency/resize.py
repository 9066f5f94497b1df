"""Linear interpolation of a map to another size, cell by cell of the smaller one."""

import numpy as np

from .contract import Floats

__all__ = ["resize"]


def resize(field: Floats, space: tuple[int, ...]) -> Floats:
    """The field at `space` places along its axes; cells keep their centres, and the ends are drawn out.

    Interpolation along one axis after the other, which is bilinear for two.
    """
    for axis, size in enumerate(space):
        length = field.shape[axis]
        at = (np.arange(size) + 0.5) * length / size - 0.5
        low = np.clip(np.floor(at).astype(np.intp), 0, length - 1)
        high = np.minimum(low + 1, length - 1)
        share = np.clip(at - low, 0.0, 1.0).reshape(-1, *(1,) * (field.ndim - axis - 1))
        field = np.take(field, low, axis) * (1.0 - share) + np.take(field, high, axis) * share
    return field
