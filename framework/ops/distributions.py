"""Draws from distributions that are given by tensors; every draw is a function of its key.

Where a formula makes the numbers from uniform ones, gradients flow to the parameters (reparameterization); where NumPy
draws them with rejection, none do.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtype import as_dtype, int64
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..random import Key
from ..shape import Spec
from ..tensor import Array, Tensor, TensorLike
from .activation import softmax
from .arithmetic import abs, add, multiply, negative, sign, subtract
from .array import stop_gradient
from .compare import argmax, less
from .constructed import one_hot
from .index_along import take
from .math import log
from .operands import as_real, as_tensor, cast_to
from .random import permutation, uniform
from .reduce import broadcast_to
from .sort import topk
from .special import erfinv

# The smallest number uniform draws may give where a logarithm follows: 2**-24, half the grid of float32 draws.
_LEAST = 2.0**-24


def bernoulli(key: Key, p: TensorLike, shape: Sequence[int] | None = None, dtype: npt.DTypeLike = "float32") -> Tensor:
    """1 with probability `p`, else 0.

    Args:
        key: What is drawn with.
        p: Probabilities; broadcast to `shape`.
        shape: That of `p` by default.
        dtype: Of the result.
    """
    chance = as_real(p, "bernoulli")
    return cast_to(less(uniform(key, chance.shape if shape is None else shape), chance), as_dtype(dtype))


def gumbel(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Numbers from the standard Gumbel distribution: `-log(-log u)`."""
    return cast_to(negative(log(negative(log(uniform(key, shape, _LEAST, 1.0, "float64"))))), as_dtype(dtype))


def truncated_normal(
    key: Key, shape: Sequence[int], low: float = -2.0, high: float = 2.0, dtype: npt.DTypeLike = "float32"
) -> Tensor:
    """Numbers from the standard normal distribution, only those from `low` to `high`: by the inverse distribution."""
    if not low < high:
        raise ValueError(f"truncated_normal expects low < high, got {low} and {high}")
    first, last = math.erf(low / math.sqrt(2.0)), math.erf(high / math.sqrt(2.0))
    numbers = multiply(erfinv(uniform(key, shape, first, last, "float64")), math.sqrt(2.0))
    return cast_to(numbers, as_dtype(dtype))


def laplace(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Numbers from the Laplace distribution of mean 0 and scale 1."""
    u = uniform(key, shape, -1.0 + _LEAST, 1.0, "float64")
    size = negative(log(subtract(1.0, abs(u))))
    return cast_to(multiply(size, sign(u)), as_dtype(dtype))


def categorical(key: Key, logits: Tensor, shape: Sequence[int] = ()) -> Tensor:
    """Classes drawn with the probabilities `softmax(logits)`.

    Args:
        key: What is drawn with.
        logits: `(*batch, classes)`.
        shape: Of the draws for each distribution.

    Returns:
        int64, `(*shape, *batch)`.

    Reference:
        Gumbel 1954; the largest of logits with Gumbel noise is distributed so.
    """
    logits = as_real(logits, "categorical")
    whole = (*shape, *logits.shape)
    return argmax(add(broadcast_to(logits, whole), gumbel(key, whole, logits.dtype)), -1)


def multinomial(key: Key, weights: Tensor, count: int, replacement: bool = True) -> Tensor:
    """So many classes for each row of weights.

    Args:
        key: What is drawn with.
        weights: `(*batch, classes)`, 0 or more, not necessarily adding up to 1.
        count: Draws a row; without replacement at most the number of classes.
        replacement: Whether a class can be drawn twice.

    Returns:
        int64, `(*batch, count)`.
    """
    logits = log(as_real(weights, "multinomial"))
    if replacement:
        draws = categorical(key, logits, (count,))
        return draws.transpose(*range(1, draws.ndim), 0)
    if count > logits.shape[-1]:
        raise ShapeError(f"multinomial without replacement expects at most {logits.shape[-1]} draws, got {count}")
    return topk(add(logits, gumbel(key, logits.shape, logits.dtype)), count)[1]


def shuffle(key: Key, x: Tensor, axis: int = 0) -> Tensor:
    """The slices along `axis` in random order."""
    x = as_tensor(x)
    return take(x, permutation(key, x.shape[axis]), axis)


def _by_parameter(name: str, numbers: Callable[[np.random.Generator, Array], Any], whole: bool) -> Primitive:
    """A primitive that draws one number for every element of its tensor."""

    def evaluate(key: Key, x: Array) -> Array:
        return np.asarray(numbers(key.generator(), x.astype(np.float64)), np.int64 if whole else x.dtype)

    def infer(key: object, x: Spec) -> Spec:
        return Spec(x.shape, int64) if whole else x

    return Primitive(name, evaluate, infer, NOT_DIFFERENTIABLE)


_gamma = _by_parameter("gamma", lambda generator, x: generator.standard_gamma(x), whole=False)
_poisson = _by_parameter("poisson", lambda generator, x: generator.poisson(x), whole=True)


def gamma(key: Key, concentration: TensorLike, shape: Sequence[int] | None = None) -> Tensor:
    """Numbers from gamma distributions of rate 1; no gradient flows.

    Args:
        key: What is drawn with.
        concentration: Above 0; broadcast to `shape`.
        shape: That of the concentration by default.
    """
    x = as_real(concentration, "gamma")
    return _gamma(key, x if shape is None else broadcast_to(x, shape))


def poisson(key: Key, rate: TensorLike, shape: Sequence[int] | None = None) -> Tensor:
    """Counts from Poisson distributions, in int64; no gradient flows.

    Args:
        key: What is drawn with.
        rate: 0 or more; broadcast to `shape`.
        shape: That of the rate by default.
    """
    x = as_real(rate, "poisson")
    return _poisson(key, x if shape is None else broadcast_to(x, shape))


def gumbel_softmax(key: Key, logits: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Rows that are nearly one-hot, drawn with the probabilities `softmax(logits)`; gradients flow to the logits.

    Args:
        key: What is drawn with.
        logits: Unnormalized.
        temperature: The lower, the nearer to one-hot.
        hard: One-hot values with the gradient of the soft ones.
        axis: Where the classes lie.

    Reference:
        Jang et al. 2016, arXiv:1611.01144; Maddison et al. 2016, arXiv:1611.00712.
    """
    logits = as_real(logits, "gumbel_softmax")
    soft = softmax(multiply(add(logits, gumbel(key, logits.shape, logits.dtype)), 1.0 / temperature), axis)
    if not hard:
        return soft
    chosen = cast_to(one_hot(argmax(soft, axis), logits.shape[axis], axis=axis), logits.dtype)
    return add(soft, stop_gradient(subtract(chosen, soft)))
