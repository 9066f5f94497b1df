"""Arrays of any library behind the Python array API standard, and the few steps that the standard leaves out.

A search asks `namespace(x)` for the functions that take `x`: NumPy's or torch's, under the names of the standard
(data-apis.org/array-api). Values stay in the library and on the device that they came from.
"""

from collections.abc import Sequence
from typing import Any, Final

import array_api_compat
import numpy as np
from numpy.typing import NDArray

# Any: a NumPy array or a torch tensor on its own device; the two share no type that a checker knows.
Array = Any
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Images = NDArray[Any]  # Any: float32 or float64

_NAMESPACES: Final[dict[type, Any]] = {}  # a search asks dozens of times a step, always with one or two types


def namespace(x: Array) -> Any:
    """The functions of the array API standard for the library of `x`."""
    found = _NAMESPACES.get(type(x))
    if found is None:
        found = _NAMESPACES[type(x)] = array_api_compat.array_namespace(x)
    return found


def to_numpy(x: Array) -> NDArray[Any]:
    """The values of `x` in host memory, without a copy where they are there already."""
    return x if isinstance(x, np.ndarray) else np.asarray(x.detach().cpu().numpy())


def from_numpy(values: NDArray[Any], like: Array) -> Array:
    """`values` as an array of the kind, and on the device, of `like`; the dtype stays that of `values`."""
    return values if isinstance(like, np.ndarray) else namespace(like).asarray(values, device=like.device)


def as_float64(x: Array) -> Array:
    """`x` in double precision, in which all distances are measured."""
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def cast(x: Array, like: Array) -> Array:
    """`x` in the dtype of `like`."""
    return namespace(x).astype(x, like.dtype, copy=False)


def drawn(values: NDArray[Any], like: Array) -> Array:
    """`values` as an array of the kind, device and dtype of `like`."""
    return cast(from_numpy(values, like), like)


def concatenate(parts: Sequence[Array]) -> Array:
    """The parts after each other along the batch axis."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0)


def copy(x: Array) -> Array:
    """A copy of `x` to write into."""
    return namespace(x).asarray(x, copy=True)
