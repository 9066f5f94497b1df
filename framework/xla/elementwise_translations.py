"""Element-wise functions."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special

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
def _complex(a: Any, b: Any) -> Any:
    a, b = jnp.broadcast_arrays(a, b)
    return jax.lax.complex(a, b)


@translation("full_like")
def _full_like(x: Any, *, value: Any) -> Any:
    return jnp.full_like(x, value)


@translation("identity", "mark", "mark_gradient", "segment", "transfer")
def _identity(x: Any, **_: Any) -> Any:
    return x


@translation("stop_gradient")
def _stop_gradient(x: Any) -> Any:
    return x


@translation("polygamma")
def _polygamma(x: Any, *, order: int) -> Any:
    return special.digamma(x) if order == 0 else special.polygamma(order, x)


@translation("isinf")
def _isinf(x: Any, *, positive: bool, negative: bool) -> Any:
    nowhere = jnp.zeros(x.shape, bool)
    return (jnp.isposinf(x) if positive else nowhere) | (jnp.isneginf(x) if negative else nowhere)


@translation("isclose")
def _isclose(a: Any, b: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    return jnp.isclose(a, b, rtol, atol, equal_nan)


@translation("cast")
def _cast(x: Any, *, dtype: Any) -> Any:
    if jnp.iscomplexobj(x) and dtype.kind not in "cb":
        x = x.real
    return x.astype(dtype)


@translation("bitcast")
def _bitcast(x: Any, *, dtype: Any) -> Any:
    return jax.lax.bitcast_convert_type(x, dtype)


@translation("clip")
def _clip(x: Any, *, low: Any, high: Any) -> Any:
    return jnp.clip(x, low, high)


@translation("where")
def _where(condition: Any, a: Any, b: Any) -> Any:
    return jnp.where(condition, a, b)


@translation("gelu")
def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=True)


@translation("gelu_exact")
def _gelu_exact(x: Any) -> Any:
    return 0.5 * x * special.erfc(-x * math.sqrt(0.5))


def _slope(function: Any) -> Any:
    return lambda g, x: jax.vjp(function, x)[1](g)[0]


TRANSLATIONS["gelu_gradient"] = _slope(_gelu)
TRANSLATIONS["gelu_exact_gradient"] = _slope(_gelu_exact)
TRANSLATIONS["silu_gradient"] = _slope(jax.nn.silu)


@translation("relu_gradient")
def _relu_gradient(g: Any, y: Any) -> Any:
    return jnp.where(y <= 0, jnp.zeros((), g.dtype), g)


def _mixed(h: Any) -> Any:
    h = (h ^ (h >> 16)) * jnp.uint32(0x7FEB352D)
    h = (h ^ (h >> 15)) * jnp.uint32(0x846CA68B)
    return h ^ (h >> 16)


@translation("dropout")
def _dropout(x: Any, key: KeyWords, *, rate: float) -> Any:
    """Return the same bits as the engine's own kernel."""
    numbers = jnp.arange(x.size, dtype=jnp.uint32)
    fate = _mixed(_mixed(numbers ^ key.words[0]) ^ key.words[1]).reshape(x.shape)
    kept = fate >= jnp.uint32(int(rate * (1 << 32)))
    return jnp.where(kept, x * jnp.asarray(1.0 / (1.0 - rate), x.dtype), jnp.zeros((), x.dtype))
