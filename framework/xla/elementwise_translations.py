"""Element-wise functions."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.special as special

from ..dtype import Dtype
from .translation_table import TRANSLATIONS, KeyWords, translation

_SAME_NAME = (
    "abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "conj", "copysign", "cos",
    "cosh",
    "equal", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isnan", "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "not_equal", "power", "real", "remainder", "right_shift", "round", "sign", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
)  # fmt: skip
_OTHER_NAME = {
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atan2": jnp.arctan2,
    "atanh": jnp.arctanh,
    "divide": jnp.true_divide,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.gammaln,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
}
TRANSLATIONS.update({name: getattr(jnp, name) for name in _SAME_NAME})
TRANSLATIONS.update(_OTHER_NAME)


@translation("complex")
def _complex(a: jax.Array, b: jax.Array) -> jax.Array:
    a, b = jnp.broadcast_arrays(a, b)
    return jax.lax.complex(a, b)


@translation("full_like")
def _full_like(x: jax.Array, *, value: float) -> jax.Array:
    return jnp.full_like(x, value)


@translation("identity", "mark", "mark_gradient", "segment", "transfer")
def _identity(x: jax.Array, **_: object) -> jax.Array:
    return x


@translation("stop_gradient")
def _stop_gradient(x: jax.Array) -> jax.Array:
    return x


@translation("polygamma")
def _polygamma(x: jax.Array, *, order: int) -> jax.Array:
    return special.digamma(x) if order == 0 else special.polygamma(order, x)


@translation("isinf")
def _isinf(x: jax.Array, *, positive: bool, negative: bool) -> jax.Array:
    nowhere = jnp.zeros(x.shape, bool)
    return (jnp.isposinf(x) if positive else nowhere) | (jnp.isneginf(x) if negative else nowhere)


@translation("isclose")
def _isclose(a: jax.Array, b: jax.Array, *, rtol: float, atol: float, equal_nan: bool) -> jax.Array:
    return jnp.isclose(a, b, rtol, atol, equal_nan)


@translation("cast")
def _cast(x: jax.Array, *, dtype: Dtype) -> jax.Array:
    if jnp.iscomplexobj(x) and dtype.kind not in "cb":
        x = x.real
    return x.astype(dtype)


@translation("bitcast")
def _bitcast(x: jax.Array, *, dtype: Dtype) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, dtype)


@translation("clip")
def _clip(x: jax.Array, *, low: float | None, high: float | None) -> jax.Array:
    return jnp.clip(x, low, high)


@translation("where")
def _where(condition: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.where(condition, a, b)


@translation("gelu")
def _gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=True)


@translation("gelu_exact")
def _gelu_exact(x: jax.Array) -> jax.Array:
    return 0.5 * x * special.erfc(-x * math.sqrt(0.5))


def _slope(function: Callable[..., jax.Array]) -> Callable[[jax.Array, jax.Array], jax.Array]:
    return lambda g, x: jax.vjp(function, x)[1](g)[0]


TRANSLATIONS["gelu_gradient"] = _slope(_gelu)
TRANSLATIONS["gelu_exact_gradient"] = _slope(_gelu_exact)
TRANSLATIONS["silu_gradient"] = _slope(jax.nn.silu)


@translation("relu_gradient")
def _relu_gradient(g: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(y <= 0, jnp.zeros((), g.dtype), g)


def _mixed(h: jax.Array) -> jax.Array:
    h = (h ^ (h >> 16)) * jnp.uint32(0x7FEB352D)
    h = (h ^ (h >> 15)) * jnp.uint32(0x846CA68B)
    return h ^ (h >> 16)


@translation("dropout")
def _dropout(x: jax.Array, key: KeyWords, *, rate: float) -> jax.Array:
    """Return the same bits as the engine's own kernel."""
    numbers = jnp.arange(x.size, dtype=jnp.uint32)
    fate = _mixed(_mixed(numbers ^ key.words[0]) ^ key.words[1]).reshape(x.shape)
    kept = fate >= jnp.uint32(int(rate * (1 << 32)))
    return jnp.where(kept, x * jnp.asarray(1.0 / (1.0 - rate), x.dtype), jnp.zeros((), x.dtype))
