"""Random numbers in operations; each draw is a function of its key, so the same key gives the same result.

Where a formula makes the numbers from uniform ones, gradients flow to the parameters (reparameterization); where NumPy
draws them with rejection, none do.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from .. import kernels
from ..dtype import Dtype, as_dtype, float32, float64, int64
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..random import Key
from ..specs import Shape, Spec
from ..tensor import Array, Tensor, TensorLike
from .activation_ops import softmax
from .arithmetic_ops import abs, add, multiply, negative, sign, subtract
from .constructed import one_hot
from .gather_scatter import take
from .layout import stop_gradient
from .logic_ops import argmax, less
from .operands import as_real, as_tensor, cast_to
from .ordering import topk
from .reduce import broadcast_to
from .special_functions import erfinv
from .transcendental import log

_WORD = 1 << 32


def _dropout_of(x: Array, key: Key, *, rate: float) -> Array:
    wide = np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))
    out = np.empty(x.shape, wide.dtype)
    words = key.bits % _WORD, (key.bits >> 32) % _WORD
    kernels.elementwise_kernels.dropout(
        wide.reshape(-1), out.reshape(-1), *words, int(rate * _WORD), 1.0 / (1.0 - rate)
    )
    return out.astype(x.dtype, copy=False)


# Linear, and its own transpose: the mask is computed again from the key on the way back.
_dropout: Primitive = Primitive(
    "dropout",
    _dropout_of,
    lambda x, key, *, rate: x,
    (lambda g, _, x, key, *, rate: _dropout(g, key, rate=rate), None),
)


def dropout(x: Tensor, key: Key, rate: float = 0.5) -> Tensor:
    """Return the tensor with a share `rate` of its elements set to 0, the others divided by `1 - rate`.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout expects a rate from 0 up to, not including, 1; got {rate}")
    return x if rate == 0.0 else _dropout(as_real(x, "dropout"), key, rate=rate)


def _draw(name: str, numbers: Callable[..., Array]) -> Primitive:
    """Return a primitive that draws `numbers(generator, shape, dtype of the draw, **attributes)` with its key."""

    def evaluate(key: Key, *, shape: Shape, dtype: Dtype, **how: object) -> Array:
        draw = float64 if dtype == float64 else float32
        return np.asarray(numbers(key.generator(), shape, draw, **how)).astype(dtype, copy=False)

    def infer(key: object, *, shape: Shape, dtype: Dtype, **_: object) -> Spec:
        return Spec(tuple(shape), dtype)

    return Primitive(name, evaluate, infer, NOT_DIFFERENTIABLE)


_normal = _draw("normal", lambda generator, shape, draw: generator.standard_normal(shape, draw))
_uniform = _draw(
    "uniform",
    lambda generator, shape, draw, low, high: generator.random(shape, draw) * draw.type(high - low) + draw.type(low),
)
_permutation = _draw("permutation", lambda generator, shape, draw: generator.permutation(shape[0]))


def normal(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Draw numbers from the standard normal distribution."""
    return _normal(key, shape=tuple(shape), dtype=as_dtype(dtype))


def uniform(
    key: Key, shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: npt.DTypeLike = "float32"
) -> Tensor:
    """Draw numbers evenly spread from `low` up to, not including, `high`."""
    return _uniform(key, shape=tuple(shape), dtype=as_dtype(dtype), low=float(low), high=float(high))


def permutation(key: Key, length: int) -> Tensor:
    """Return the numbers from 0 up to `length`, not included, in random order."""
    return _permutation(key, shape=(length,), dtype=int64)


_randint = _draw("randint", lambda generator, shape, draw, low, high: generator.integers(low, high, shape))
_exponential = _draw("exponential", lambda generator, shape, draw: generator.standard_exponential(shape, draw))


def randint(key: Key, low: int, high: int, shape: Sequence[int], dtype: npt.DTypeLike = "int64") -> Tensor:
    """Draw integers from `low` up to, not including, `high`, each as likely."""
    if not low < high:
        raise ValueError(f"randint expects low < high, got {low} and {high}")
    return _randint(key, shape=tuple(shape), dtype=as_dtype(dtype), low=int(low), high=int(high))


def exponential(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Draw numbers from the exponential distribution of mean 1."""
    return _exponential(key, shape=tuple(shape), dtype=as_dtype(dtype))


# The smallest number uniform draws may give where a logarithm follows: 2**-24, half the grid of float32 draws.
_LEAST = 2.0**-24


def bernoulli(key: Key, p: TensorLike, shape: Sequence[int] | None = None, dtype: npt.DTypeLike = "float32") -> Tensor:
    """Return 1 with probability `p`, else 0.

    Args:
        key: What is drawn with.
        p: Probabilities; broadcast to `shape`.
        shape: That of `p` by default.
        dtype: Of the result.
    """
    chance = as_real(p, "bernoulli")
    return cast_to(less(uniform(key, chance.shape if shape is None else shape), chance), as_dtype(dtype))


def gumbel(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Draw numbers from the standard Gumbel distribution: `-log(-log u)`."""
    return cast_to(negative(log(negative(log(uniform(key, shape, _LEAST, 1.0, "float64"))))), as_dtype(dtype))


def truncated_normal(
    key: Key, shape: Sequence[int], low: float = -2.0, high: float = 2.0, dtype: npt.DTypeLike = "float32"
) -> Tensor:
    """Draw numbers from the standard normal distribution, only those from `low` to `high`: by the inverse
    distribution."""
    if not low < high:
        raise ValueError(f"truncated_normal expects low < high, got {low} and {high}")
    first, last = math.erf(low / math.sqrt(2.0)), math.erf(high / math.sqrt(2.0))
    numbers = multiply(erfinv(uniform(key, shape, first, last, "float64")), math.sqrt(2.0))
    return cast_to(numbers, as_dtype(dtype))


def laplace(key: Key, shape: Sequence[int], dtype: npt.DTypeLike = "float32") -> Tensor:
    """Draw numbers from the Laplace distribution of mean 0 and scale 1."""
    u = uniform(key, shape, -1.0 + _LEAST, 1.0, "float64")
    size = negative(log(subtract(1.0, abs(u))))
    return cast_to(multiply(size, sign(u)), as_dtype(dtype))


def categorical(key: Key, logits: Tensor, shape: Sequence[int] = ()) -> Tensor:
    """Draw classes drawn with the probabilities `softmax(logits)`.

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
    """Draw so many classes for each row of weights.

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
    """Return the slices along `axis` in random order."""
    x = as_tensor(x)
    return take(x, permutation(key, x.shape[axis]), axis)


def _by_parameter(name: str, numbers: Callable[[np.random.Generator, Array], Array], whole: bool) -> Primitive:
    """Return a primitive that draws one number for every element of its tensor."""

    def evaluate(key: Key, x: Array) -> Array:
        return np.asarray(numbers(key.generator(), x.astype(np.float64)), np.int64 if whole else x.dtype)

    def infer(key: object, x: Spec) -> Spec:
        return Spec(x.shape, int64) if whole else x

    return Primitive(name, evaluate, infer, NOT_DIFFERENTIABLE)


_gamma = _by_parameter("gamma", lambda generator, x: generator.standard_gamma(x), whole=False)
_poisson = _by_parameter("poisson", lambda generator, x: generator.poisson(x), whole=True)


def gamma(key: Key, concentration: TensorLike, shape: Sequence[int] | None = None) -> Tensor:
    """Draw numbers from gamma distributions of rate 1; no gradient flows.

    Args:
        key: What is drawn with.
        concentration: Above 0; broadcast to `shape`.
        shape: That of the concentration by default.
    """
    x = as_real(concentration, "gamma")
    return _gamma(key, x if shape is None else broadcast_to(x, shape))


def poisson(key: Key, rate: TensorLike, shape: Sequence[int] | None = None) -> Tensor:
    """Draw counts from Poisson distributions, in int64; no gradient flows.

    Args:
        key: What is drawn with.
        rate: 0 or more; broadcast to `shape`.
        shape: That of the rate by default.
    """
    x = as_real(rate, "poisson")
    return _poisson(key, x if shape is None else broadcast_to(x, shape))


def gumbel_softmax(key: Key, logits: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Draw rows that are nearly one-hot, drawn with the probabilities `softmax(logits)`; gradients flow to the logits.

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
