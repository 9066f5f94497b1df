"""The few array operations that NumPy and torch spell differently; everything else they share by name.

A search calls `namespace(x)` and gets the module `numpy` or `torch`. Of the functions that both offer under one name,
with `axis` and `keepdims` understood by both, searches use `abs, all, amax, any, argmax, clip, concatenate, cumsum,
exp, isfinite, nextafter, ones_like, sign, sqrt, stack, sum, where`: this subset replaces a compatibility library.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Any: a NumPy array or a torch tensor on its own device; the two share no type that a checker knows.
Array = Any
Rows = NDArray[np.int64]


def namespace(x: Array) -> Any:
    """The module, `numpy` or `torch`, whose functions take `x`."""
    return import_module(type(x).__module__.partition(".")[0])


def to_numpy(x: Array) -> NDArray[Any]:
    """The values of `x` in host memory, without a copy where they are there already."""
    return x if isinstance(x, np.ndarray) else np.asarray(x.detach().cpu().numpy())


def from_numpy(values: NDArray[Any], like: Array) -> Array:
    """`values` as an array of the kind, and on the device, of `like`; the dtype stays that of `values`."""
    return values if isinstance(like, np.ndarray) else namespace(like).as_tensor(values, device=like.device)


def as_float64(x: Array) -> Array:
    """`x` in double precision, in which all distances are measured."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()


def cast(x: Array, like: Array) -> Array:
    """`x` in the dtype of `like`."""
    return x.astype(like.dtype) if isinstance(x, np.ndarray) else x.to(like.dtype)


def per_sample(values: Array, like: Array) -> Array:
    """`(n,)` values shaped to broadcast against `like`, `(n, ...)`."""
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def is_class(logits: Array, classes: Array) -> Array:
    """`(n, classes)` bool, True at each row's own class; computed where `logits` are, without a transfer."""
    xp = namespace(logits)
    positions = xp.cumsum(xp.ones_like(logits[:1]), axis=1) - 1
    return positions == classes[:, None]


def concatenate(parts: Sequence[Array]) -> Array:
    """The parts after each other along the batch axis."""
    return namespace(parts[0]).concatenate(list(parts))
