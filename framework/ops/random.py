"""Randomness in operations: always from a key, so the same key gives the same result."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import kernels
from ..dtype import as_dtype, float32, float64
from ..primitive import Primitive
from ..random import Key
from ..tensor import Array, Tensor, wrap
from .operands import infer_same

_WORD = 1 << 32


def _dropout_of(x: Array, *, bits: int, rate: float) -> Array:
    wide = np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))
    out = np.empty(x.shape, wide.dtype)
    words = bits % _WORD, (bits >> 32) % _WORD
    kernels.mask.dropout(wide.reshape(-1), out.reshape(-1), *words, int(rate * _WORD), 1.0 / (1.0 - rate))
    return out.astype(x.dtype, copy=False)


# Linear, and its own transpose: the mask is computed again from the key on the way back.
_dropout: Primitive = Primitive(
    "dropout", _dropout_of, infer_same, (lambda g, _, x, *, bits, rate: _dropout(g, bits=bits, rate=rate),)
)


def dropout(x: Tensor, key: Key, rate: float = 0.5) -> Tensor:
    """The tensor with a share `rate` of its elements set to 0, the others divided by `1 - rate`.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout expects a rate from 0 up to, not including, 1; got {rate}")
    return x if rate == 0.0 else _dropout(x, bits=key.bits, rate=rate)


def normal(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Numbers from the standard normal distribution."""
    kind = as_dtype(dtype)
    draw = np.float64 if kind == float64 else np.float32
    return wrap(key.generator().standard_normal(tuple(shape), draw).astype(kind, copy=False))


def uniform(
    key: Key, shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: npt.DTypeLike = "float32"
) -> Tensor:
    """Numbers evenly spread from `low` up to, not including, `high`."""
    kind = as_dtype(dtype)
    draw = np.float64 if kind == float64 else np.float32
    numbers = key.generator().random(tuple(shape), draw)
    return wrap((numbers * draw(high - low) + draw(low)).astype(kind, copy=False))


def permutation(key: Key, length: int) -> Tensor:
    """The numbers from 0 up to `length`, not included, in random order."""
    return wrap(key.generator().permutation(length).astype(np.int64))
