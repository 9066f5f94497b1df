"""Arrays of any library behind the Python array API standard, and the few operations that the standard lacks.

A search asks `namespace(x)` for the functions that take `x`: NumPy's or torch's, under the names of the standard
(data-apis.org/array-api). Values stay in the library and on the device that they came from.
"""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import array_api_compat
import numpy as np
from numpy.typing import NDArray

# Any: a NumPy array or a torch tensor on its own device; the two share no static type.
Array = Any
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Images = NDArray[np.floating]  # float32 or float64

_NAMESPACES: Final[dict[type, ModuleType]] = {}  # a search asks dozens of times a step, always with one or two types


def namespace(x: Array) -> ModuleType:
    """Return the functions of the array API standard for the library of `x`."""
    found = _NAMESPACES.get(type(x))
    if found is None:
        found = _NAMESPACES[type(x)] = array_api_compat.array_namespace(x)
    return found


def to_numpy(x: Array) -> NDArray[Any]:
    """Return the values of `x` in host memory, without a copy if they are there already."""
    return x if isinstance(x, np.ndarray) else np.asarray(x.detach().cpu().numpy())


def from_numpy(values: NDArray[np.generic], like: Array) -> Array:
    """Convert `values` to an array of the library and device of `like`; the dtype stays."""
    return values if isinstance(like, np.ndarray) else namespace(like).asarray(values, device=like.device)


def as_float64(x: Array) -> Array:
    """Convert `x` to double precision, in which all distances are measured."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def cast(x: Array, like: Array) -> Array:
    """Convert `x` to the dtype of `like`."""
    return namespace(x).astype(x, like.dtype, copy=False)


def like_array(values: NDArray[np.generic], like: Array) -> Array:
    """Convert `values` to an array of the library, device and dtype of `like`."""
    return cast(from_numpy(values, like), like)


def concatenate(parts: Sequence[Array]) -> Array:
    """Concatenate the parts along the batch axis."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0)


def copy(x: Array) -> Array:
    """Return a copy of `x` to write into."""
    return namespace(x).asarray(x, copy=True)


def take(x: Array, rows: Rows) -> Array:
    """Return these samples of `x`: the same as `x[rows]`, which takes torch five times as long."""
    return x.take(rows, axis=0) if isinstance(x, np.ndarray) else x.index_select(0, from_numpy(rows, x))


def all_finite(x: Array) -> bool:
    """Return whether no element is NaN or infinite."""
    xp = namespace(x)  # a finite sum, one fast pass, proves that all elements are finite
    return math.isfinite(float(xp.sum(x))) or bool(xp.all(xp.isfinite(x)))


def flat(x: Array) -> Array:
    """Reshape `x`, `(n, ...)`, to `(n, size)`; an empty batch keeps its size."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def per_sample(values: Array, like: Array) -> Array:
    """Return `(n,)` values shaped to broadcast against `like`, `(n, ...)`."""
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def is_class(logits: Array, classes: Array) -> Array:
    """Return `(n, classes)` bool, True at each row's own class; computed where `logits` are, without a transfer."""
    positions = namespace(logits).arange(logits.shape[1], device=array_api_compat.device(logits))
    return positions == classes[:, None]


def image_shape(x: Array) -> tuple[int, int, int]:
    """Return `(channels, height, width)` of one sample: the last two axes are the image; a flat input is one row."""
    shape = tuple(x.shape[1:])
    if len(shape) == 1:
        return 1, 1, shape[0]
    channels = 1
    for axis in shape[:-2]:
        channels *= axis
    return channels, shape[-2], shape[-1]


def as_images(x: Array) -> Array:
    """Reshape `x`, `(n, ...)`, to `(n, channels, height, width)`."""
    return x.reshape((len(x), *image_shape(x)))
