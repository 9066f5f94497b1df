"""Randomness in operations: always from a key, so the same key gives the same result."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import kernels
from ..dtype import Dtype, as_dtype, float32, float64, int64
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..random import Key
from ..shape import Shape, Spec
from ..tensor import Array, Tensor
from .operands import as_real

_WORD = 1 << 32


def _dropout_of(x: Array, key: Key, *, rate: float) -> Array:
    wide = np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))
    out = np.empty(x.shape, wide.dtype)
    words = key.bits % _WORD, (key.bits >> 32) % _WORD
    kernels.mask.dropout(wide.reshape(-1), out.reshape(-1), *words, int(rate * _WORD), 1.0 / (1.0 - rate))
    return out.astype(x.dtype, copy=False)


# Linear, and its own transpose: the mask is computed again from the key on the way back.
_dropout: Primitive = Primitive(
    "dropout",
    _dropout_of,
    lambda x, key, *, rate: x,
    (lambda g, _, x, key, *, rate: _dropout(g, key, rate=rate), None),
)


def dropout(x: Tensor, key: Key, rate: float = 0.5) -> Tensor:
    """The tensor with a share `rate` of its elements set to 0, the others divided by `1 - rate`.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout expects a rate from 0 up to, not including, 1; got {rate}")
    return x if rate == 0.0 else _dropout(as_real(x, "dropout"), key, rate=rate)


def _draw(name: str, numbers: Callable[..., Any]) -> Primitive:
    """A primitive that draws `numbers(generator, shape, dtype of the draw, **attributes)` with its key."""

    def evaluate(key: Key, *, shape: Shape, dtype: Dtype, **how: Any) -> Array:
        draw = float64 if dtype == float64 else float32
        return np.asarray(numbers(key.generator(), shape, draw, **how)).astype(dtype, copy=False)

    def infer(key: object, *, shape: Shape, dtype: Dtype, **_: Any) -> Spec:
        return Spec(tuple(shape), dtype)

    return Primitive(name, evaluate, infer, NOT_DIFFERENTIABLE)


_normal = _draw("normal", lambda generator, shape, draw: generator.standard_normal(shape, draw))
_uniform = _draw(
    "uniform",
    lambda generator, shape, draw, low, high: generator.random(shape, draw) * draw.type(high - low) + draw.type(low),
)
_permutation = _draw("permutation", lambda generator, shape, draw: generator.permutation(shape[0]))


def normal(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Numbers from the standard normal distribution."""
    return _normal(key, shape=tuple(shape), dtype=as_dtype(dtype))


def uniform(
    key: Key, shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: npt.DTypeLike = "float32"
) -> Tensor:
    """Numbers evenly spread from `low` up to, not including, `high`."""
    return _uniform(key, shape=tuple(shape), dtype=as_dtype(dtype), low=float(low), high=float(high))


def permutation(key: Key, length: int) -> Tensor:
    """The numbers from 0 up to `length`, not included, in random order."""
    return _permutation(key, shape=(length,), dtype=int64)


_randint = _draw("randint", lambda generator, shape, draw, low, high: generator.integers(low, high, shape))
_exponential = _draw("exponential", lambda generator, shape, draw: generator.standard_exponential(shape, draw))


def randint(key: Key, low: int, high: int, shape: Sequence[int], dtype: npt.DTypeLike = "int64") -> Tensor:
    """Integers from `low` up to, not including, `high`, each as likely."""
    if not low < high:
        raise ValueError(f"randint expects low < high, got {low} and {high}")
    return _randint(key, shape=tuple(shape), dtype=as_dtype(dtype), low=int(low), high=int(high))


def exponential(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Numbers from the exponential distribution of mean 1."""
    return _exponential(key, shape=tuple(shape), dtype=as_dtype(dtype))
