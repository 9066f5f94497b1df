"""Every primitive keeps the contract of the table: evaluation, inference, and derivatives of first and second order."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Tensor, nn, ops  # noqa: F401  (nn adds a primitive of its own)
from mindscope.framework.ops.conv import Window
from mindscope.framework.primitive import spec_of
from mindscope.framework.testing import check_gradients

_random = np.random.default_rng(20240229)


def real(*shape, low=-2.0, high=2.0):
    """Numbers at least 0.01 apart from each other and from 0, so that no finite difference crosses a kink."""
    count = int(np.prod(shape))
    grid = np.linspace(low, high, 2 * count + 2)[1:-1:2] + 0.011
    return _random.permutation(grid).reshape(shape)


def whole(high, *shape):
    return _random.integers(0, high, shape)


@dataclass
class Case:
    """One call of a primitive, and what NumPy has to say about it."""

    args: tuple
    expected: Callable[..., Any]
    attributes: dict = field(default_factory=dict)
    rtol: float = 1e-10
    second_order: bool = True


class _Tap:
    def value(self, array):
        pass

    def gradient(self, array):
        pass


def _softmax(x, scale=1.0, causal=False):
    z = x * scale
    if causal:
        queries, keys = z.shape[-2:]
        z = np.where(np.tri(queries, keys, keys - queries, dtype=bool), z, -np.inf)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _normal_distribution(x):
    return np.vectorize(math.erf)(x / np.sqrt(2)) / 2 + 0.5


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def slope(function):
    """`g f'(x)` for an element-wise function, by Richardson's extrapolation of central differences."""

    def numeric(g, x):
        def central(h):
            return (function(x + h) - function(x - h)) / (2 * h)

        return g * (4 * central(1e-3) - central(2e-3)) / 3

    return numeric


def _cross_entropy(x, labels, ignore, smoothing):
    log_p = np.log(_softmax(x))
    target = np.eye(x.shape[1])[np.where(labels == ignore, 0, labels)] * (1 - smoothing) + smoothing / x.shape[1]
    return np.where(labels == ignore, 0.0, -(target * log_p).sum(-1))


def _cross_entropy_gradient(g, x, labels, ignore, smoothing):
    target = np.eye(x.shape[1])[np.where(labels == ignore, 0, labels)] * (1 - smoothing) + smoothing / x.shape[1]
    return np.where(labels == ignore, 0.0, g)[:, None] * (_softmax(x) - target)


def _normalized(x, epsilon, axes=-1):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def jacobian_product(function, position):
    """The transpose of a function's Jacobian by its argument at `position`, times a cotangent; element by element."""

    def product(g, *args):
        x, h = args[position], 1e-4
        result = np.empty(x.shape)
        for place in np.ndindex(x.shape):
            rises = []
            for step in (h, -h, 2 * h, -2 * h):
                moved = x.copy()
                moved[place] += step
                rises.append((function(*args[:position], moved, *args[position + 1 :]) * g).sum())
            result[place] = (8 * (rises[0] - rises[1]) - (rises[2] - rises[3])) / (12 * h)
        return result

    return product


def all_products(function, count):
    return lambda g, *args: tuple(jacobian_product(function, i)(g, *args) for i in range(count))


def _layer(x, gamma, beta=0.0):
    return _normalized(x, 1e-5) * gamma + beta


def _rms(x, gamma):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma


def _batch(x, gamma, beta=0.0):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    return _normalized(x, 1e-5, axes) * np.reshape(gamma, shape) + np.reshape(
        beta, (1, -1) + (1,) * (x.ndim - 2) if np.ndim(beta) else ()
    )


def _batch_gradient(g, x, gamma):
    found = all_products(lambda x, gamma: _batch(x, gamma), 2)(g, x, gamma)
    return (*found, g.sum((0, *range(2, x.ndim))))


def _conv(x, w, window):
    """Convolution by its definition, one output pixel at a time."""
    (sh, sw), (ph, pw), (dh, dw), groups = window
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    out, depth, kh, kw = w.shape
    rows = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    columns = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    result = np.zeros((len(x), out, rows, columns))
    for o, h, c in np.ndindex(out, rows, columns):
        first = o // (out // groups) * depth
        part = padded[:, first : first + depth, h * sh : h * sh + dh * kh : dh, c * sw : c * sw + dw * kw : dw]
        result[:, o, h, c] = (part[:, :, :kh, :kw] * w[o]).sum((1, 2, 3))
    return result


def _pool(x, kernel, stride, padding, choose):
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=np.nan)
    rows = (padded.shape[2] - kernel[0]) // stride[0] + 1
    columns = (padded.shape[3] - kernel[1]) // stride[1] + 1
    result = np.zeros((*x.shape[:2], rows, columns))
    for h, c in np.ndindex(rows, columns):
        top, left = h * stride[0], c * stride[1]
        result[:, :, h, c] = choose(padded[:, :, top : top + kernel[0], left : left + kernel[1]])
    return result


def _max_pool(x, kernel, stride, padding):
    values = _pool(x, kernel, stride, padding, lambda part: np.nanmax(part, (2, 3)))
    flat = x.reshape(*x.shape[:2], -1)
    places = (flat[:, :, None, :] == values.reshape(*x.shape[:2], -1, 1)).argmax(-1)
    return values, places.reshape(values.shape)


def _avg_pool(x, kernel, stride, padding):
    return _pool(x, kernel, stride, padding, lambda part: np.nansum(part, (2, 3)) / (kernel[0] * kernel[1]))


def _put_places(g, places, shape):
    out = np.zeros((shape[0], shape[1], shape[2] * shape[3]))
    for n, c, h, w in np.ndindex(g.shape):
        out[n, c, places[n, c, h, w]] += g[n, c, h, w]
    return out.reshape(shape)


def _put(g, index, shape):
    """Every element of g, added where it was taken from."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[index]
    return np.bincount(numbers.reshape(-1), np.reshape(g, -1), int(np.prod(shape))).reshape(shape)


def _scatter_add(g, indices, rows):
    out = np.zeros((rows, *g.shape[indices.ndim :]))
    for place in np.ndindex(indices.shape):
        out[indices[place]] += g[place]
    return out


def _dropout_share(x, bits, rate):
    """Not a formula but a property: each element is 0 or scaled; which of them is judged in tests/framework."""
    kept = ops.dropout(Tensor(np.ones(x.shape)), _key_of(bits), rate).numpy() != 0
    return np.where(kept, x / (1 - rate), 0.0)


def _key_of(bits):
    from mindscope.framework.random import from_bits

    return from_bits(bits)


_ROWS = {"axes": (1,), "keepdims": False}
_ALL = {"axes": (0, 1), "keepdims": True}
_PLAIN = Window((1, 1), (0, 0), (1, 1), 1)
_SAME = Window((1, 1), (1, 1), (1, 1), 1)
_RICH = Window((2, 1), (1, 2), (1, 2), 2)
_POOL = {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 1)}
_EPS = {"epsilon": 1e-5}


def unary(function, *args):
    shapes = args or (real(2, 3), real(), real(0, 3))
    return [Case((x,), function) for x in shapes]


def binary(function):
    return [
        Case((real(2, 3), real(2, 3, low=-1.9, high=1.7)), function),
        Case((real(2, 1, 3), real(4, 1)), function),
        Case((real(2, 3), real()), function),
        Case((real(2, 3), 1.5), function),
        Case((1.5, real(3)), function),
    ]


def reduction(function):
    return [
        Case((real(2, 3),), lambda x, axes, keepdims: function(x, axis=axes, keepdims=keepdims), how)
        for how in (_ROWS, _ALL)
    ]


CASES: dict[str, list[Case]] = {
    "abs": unary(np.abs),
    "add": binary(np.add),
    "argmax": [Case((real(3, 4),), np.argmax, {"axis": axis}) for axis in (None, 0, 1)],
    "avg_pool2d": [Case((real(2, 1, 5, 4),), _avg_pool, _POOL)],
    "avg_pool2d_gradient": [
        Case((real(2, 1, 3, 3),), lambda g, shape, **how: jacobian_product(lambda x: _avg_pool(x, **how), 0)(g, np.zeros(shape)), {**_POOL, "shape": (2, 1, 5, 4)})
    ],
    "batch_norm": [
        Case((x, real(3), real(3)), lambda x, w, b, epsilon: (_batch(x, w, b), x.mean((0, *range(2, x.ndim))), x.var((0, *range(2, x.ndim)))), _EPS)
        for x in (real(3, 3, 2), real(4, 3))
    ],
    "batch_norm_gradient": [
        Case((real(3, 2, 2), x, real(2), x.mean((0, 2)), x.var((0, 2))), lambda g, x, w, m, v, epsilon: _batch_gradient(g, x, w), _EPS, 1e-6)
        for x in (real(3, 2, 2),)
    ],
    "broadcast_to": [Case((real(2, 1),), np.broadcast_to, {"shape": (3, 2, 4)})],
    "cast": [Case((real(2, 3),), lambda x, dtype: x.astype(dtype), {"dtype": np.dtype(d)}, second_order=d == "float64") for d in ("float64",)],
    "clip": [Case((real(2, 3),), lambda x, low, high: np.minimum(np.maximum(x, low), high), {"low": -0.7, "high": 0.9})],
    "concat": [Case((real(2, 3), real(2, 1), real(2, 0)), lambda *p, axis: np.concatenate(p, axis), {"axis": 1})],
    "conv2d": [
        Case((real(2, 2, 4, 3), real(2, 2, 2, 2)), lambda x, w, window: _conv(x, w, window), {"window": _PLAIN}),
        Case((real(2, 4, 3, 4), real(2, 2, 2, 2)), lambda x, w, window: _conv(x, w, window), {"window": _RICH}),
        Case((real(2, 2, 2, 3), real(3, 2, 1, 1)), lambda x, w, window: _conv(x, w, window), {"window": _PLAIN}),
    ],
    "conv2d_bias": [
        Case((real(2, 2, 4, 3), real(3, 2, 2, 2), real(3)), lambda x, w, b, window: _conv(x, w, window) + b[:, None, None], {"window": _PLAIN}),
        Case((real(2, 2, 3, 4), real(2, 2, 3, 3), real(2)), lambda x, w, b, window: _conv(x, w, window) + b[:, None, None], {"window": _SAME}),
    ],
    "conv2d_input_gradient": [
        Case((real(2, 2, 2, 5), real(2, 2, 2, 2)), lambda g, w, window, shape: jacobian_product(lambda x: _conv(x, w, window), 0)(g, np.zeros(shape)), {"window": _RICH, "shape": (2, 4, 3, 3)}, 1e-8),
    ],
    "conv2d_weight_gradient": [
        Case((real(2, 2, 2, 5), real(2, 4, 3, 3)), lambda g, x, window, shape: jacobian_product(lambda w: _conv(x, w, window), 0)(g, np.zeros(shape)), {"window": _RICH, "shape": (2, 2, 2, 2)}, 1e-8),
    ],
    "cos": unary(np.cos),
    "cross_entropy": [
        Case((real(4, 3), np.array([0, 2, -1, 1])), _cross_entropy, {"ignore": -1, "smoothing": s}) for s in (0.0, 0.2)
    ],
    "cross_entropy_gradient": [
        Case((real(4), real(4, 3), np.array([0, 2, -1, 1])), _cross_entropy_gradient, {"ignore": -1, "smoothing": s})
        for s in (0.0, 0.2)
    ],
    "divide": binary(np.true_divide),
    "dropout": [Case((real(4, 5),), _dropout_share, {"bits": 12345678901234567890, "rate": 0.4})],
    "equal": binary(np.equal),
    "exp": unary(np.exp),
    "expm1": unary(np.expm1),
    "floor": unary(np.floor),
    "gate": [
        Case((real(2, 3),), lambda x, show: x, {"show": lambda grads: grads}),
        Case((real(2), real(3, 1)), lambda a, b, show: (a, b), {"show": lambda grads: grads}),
    ],
    "gather": [Case((real(4, 3), whole(4, 2, 3)), lambda t, i: t[i]), Case((real(4), whole(4)), lambda t, i: t[i])],
    "gelu": unary(_gelu),
    "gelu_exact": unary(lambda x: x * _normal_distribution(x) if x.size else x),
    "gelu_exact_gradient": [Case((real(2, 3), real(2, 3)), slope(lambda x: x * _normal_distribution(x)), rtol=1e-7)],
    "gelu_gradient": [Case((real(2, 3), real(2, 3)), slope(_gelu), rtol=1e-7)],
    "getitem": [
        Case((real(4, 3),), lambda x, index: x[index], {"index": index})
        for index in (1, (slice(1, 4, 2), None, -1), np.array([0, 2, 2]), (Ellipsis, np.array([True, False, True])))
    ],
    "greater": binary(np.greater),
    "greater_equal": binary(np.greater_equal),
    "identity": unary(lambda x: x),
    "isfinite": unary(np.isfinite, np.array([np.nan, np.inf, 1.0])),
    "isnan": unary(np.isnan, np.array([np.nan, np.inf, 1.0])),
    "layer_norm": [Case((real(2, 2, 4), real(4), real(4)), lambda x, w, b, epsilon: _layer(x, w, b), _EPS)],
    "layer_norm_gradient": [
        Case((real(3, 4), real(3, 4), real(4)), lambda g, x, w, epsilon: (*all_products(_layer, 2)(g, x, w), g.sum(0)), _EPS, 1e-7)
    ],
    "less": binary(np.less),
    "less_equal": binary(np.less_equal),
    "linear": [Case((real(*batch, 3), real(2, 3), real(2)), lambda x, w, b: x @ w.T + b) for batch in ((4,), (2, 2), ())],
    "log": unary(np.log, real(2, 3, low=0.3)),
    "log1p": unary(np.log1p, real(2, 3, low=-0.6)),
    "log_softmax": [Case((real(2, 4),), lambda x: np.log(_softmax(x)))],
    "logical_and": binary(np.logical_and),
    "logical_not": unary(np.logical_not, whole(2, 5)),
    "logical_or": binary(np.logical_or),
    "matmul": [
        Case((real(*a), real(*b)), lambda x, y: np.einsum("...ij,...jk->...ik", x, y))
        for a, b in (((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((2, 3), (4, 3, 2)))
    ]
    + [
        Case((real(3), real(3)), lambda x, y: (x * y).sum()),
        Case((real(2, 2, 3), real(3)), lambda x, y: (x * y).sum(-1)),
        Case((real(3), real(2, 3, 2)), lambda x, y: (x[:, None] * y).sum(-2)),
    ],
    "max": reduction(np.max),
    "max_pool2d": [Case((real(2, 1, 5, 4),), _max_pool, _POOL)],
    "maximum": binary(np.maximum),
    "mean": reduction(np.mean),
    "min": reduction(np.min),
    "minimum": binary(np.minimum),
    "multiply": binary(np.multiply),
    "negative": unary(np.negative),
    "not_equal": binary(np.not_equal),
    "observe": [Case((real(2, 3),), lambda x, tap: x, {"tap": _Tap()})],
    "observe_gradient": [Case((real(2, 3),), lambda x, tap: x, {"tap": _Tap()})],
    "pad": [Case((real(2, 3),), lambda x, widths: np.pad(x, widths), {"widths": ((1, 0), (2, 1))})],
    "pick_places": [
        Case((real(2, 1, 2, 3), whole(6, 2, 1, 2, 2)), lambda x, p: np.take_along_axis(x.reshape(2, 1, 6), p.reshape(2, 1, 4), -1).reshape(p.shape))
    ],
    "power": [
        Case((real(2, 3, low=0.2), real(2, 3)), np.power),
        Case((real(2, 3), 3), np.power),
        Case((2.5, real(3)), np.power),
    ],
    "put": [
        Case((g,), _put, {"index": index, "shape": (4, 3)})
        for g, index in ((real(3), 1), (real(3, 3), np.array([0, 2, 2])), (real(2, 1), (slice(1, 4, 2), slice(1))))
    ],
    "put_places": [Case((real(2, 1, 2, 2), whole(6, 2, 1, 2, 2)), _put_places, {"shape": (2, 1, 2, 3)})],
    "relu": unary(lambda x: np.where(x > 0, x, 0.0)),
    "relu_gradient": [Case((real(2, 3), real(2, 3)), lambda g, y: np.where(y > 0, g, 0.0))],
    "reshape": [Case((real(2, 6),), lambda x, shape: x.reshape(shape), {"shape": (3, -1)})],
    "rms_norm": [Case((real(2, 4), real(4)), lambda x, w, epsilon: _rms(x, w), {"epsilon": 1e-6})],
    "rms_norm_gradient": [
        Case((real(3, 4), real(3, 4), real(4)), lambda g, x, w, epsilon: all_products(_rms, 2)(g, x, w), {"epsilon": 1e-6}, 1e-7)
    ],
    "scatter_add": [Case((real(2, 3, 2), whole(4, 2, 3)), _scatter_add, {"rows": 4})],
    "sigmoid": unary(_sigmoid),
    "sign": unary(np.sign),
    "silu": unary(lambda x: x * _sigmoid(x)),
    "silu_gradient": [Case((real(2, 3), real(2, 3)), slope(lambda x: x * _sigmoid(x)), rtol=1e-7)],
    "sin": unary(np.sin),
    "softmax": [
        Case((real(2, 4),), _softmax, {"scale": 1.0, "causal": False}),
        Case((real(2, 3, 3),), _softmax, {"scale": 0.7, "causal": True}),
        Case((real(2, 2, 4),), _softmax, {"scale": 0.7, "causal": True}),
    ],
    "softmax_gradient": [
        Case((real(2, 4), _softmax(real(2, 4))), lambda g, y, scale, causal: scale * y * (g - (g * y).sum(-1, keepdims=True)), {"scale": 0.7, "causal": False})
    ],
    "sqrt": unary(np.sqrt, real(2, 3, low=0.3)),
    "square": unary(np.square),
    "subtract": binary(np.subtract),
    "sum": reduction(np.sum),
    "sum_to": [
        Case((real(3, 2, 4),), lambda x, shape: x.sum((0, 2)).reshape(shape), {"shape": (2, 1)}),
        Case((real(3, 2, 4),), lambda x, shape: x.sum((0, 1)), {"shape": (4,)}),
        Case((real(3, 2),), lambda x, shape: x.sum(), {"shape": ()}),
    ],
    "swapaxes": [Case((real(2, 3, 4),), lambda x, first, second: np.moveaxis(x, (0, 2), (2, 0)), {"first": 0, "second": -1})],
    "tanh": unary(np.tanh),
    "transpose": [Case((real(2, 3, 4),), lambda x, axes: np.einsum("abc->cab", x), {"axes": (2, 0, 1)})],
    "where": [Case((np.array([[True], [False]]), real(2, 3), real(3)), lambda c, a, b: np.where(c, a, b))],
}  # fmt: skip

_EVERY = [(name, i) for name in sorted(PRIMITIVES) for i in range(len(CASES.get(name, [])))]


def _wrapped(case):
    return [Tensor(x) if isinstance(x, np.ndarray | np.generic) else x for x in case.args]


def test_every_primitive_has_cases():
    assert sorted(set(PRIMITIVES) - set(CASES)) == []
    assert sorted(set(CASES) - set(PRIMITIVES)) == []


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_evaluation_agrees_with_numpy(name, number):
    case = CASES[name][number]
    found = PRIMITIVES[name](*_wrapped(case), **case.attributes)
    expected = case.expected(*case.args, **case.attributes)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for y, wanted in pairs:
        np.testing.assert_allclose(y.numpy(), wanted, rtol=case.rtol, atol=case.rtol)
        assert y.shape == np.shape(wanted)


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_inference_agrees_with_evaluation(name, number):
    case = CASES[name][number]
    found = PRIMITIVES[name](*_wrapped(case), **case.attributes)
    inferred = PRIMITIVES[name].infer(*(spec_of(x) for x in case.args), **case.attributes)
    found, inferred = (x if isinstance(x, tuple) else (x,) for x in (found, inferred))
    assert [(y.shape, y.dtype) for y in found] == [(s.shape, s.dtype) for s in inferred]


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_single_precision_stays_single(name, number):
    case = CASES[name][number]
    if "dtype" in case.attributes:
        return
    args = [Tensor(x.astype("float32")) if getattr(x, "dtype", None) == np.float64 else x for x in _wrapped_raw(case)]
    found = PRIMITIVES[name](*args, **case.attributes)
    expected = case.expected(*case.args, **case.attributes)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for y, wanted in pairs:
        assert y.dtype != np.float64
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-4, atol=2e-5)


def _wrapped_raw(case):
    return [x if not isinstance(x, np.ndarray) or x.dtype == np.float64 else Tensor(x) for x in case.args]


_SMOOTH = [(name, i) for name, i in _EVERY if PRIMITIVES[name].is_differentiable]


@pytest.mark.parametrize(("name", "number"), _SMOOTH)
def test_derivatives_agree_with_finite_differences(name, number):
    case = CASES[name][number]
    args = _wrapped(case)
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.dtype == np.float64]
    if name == "batch_norm_gradient":
        places = places[:3]  # the moments are functions of x, not inputs of their own

    def call(*varied):
        full = list(args)
        for place, x in zip(places, varied, strict=True):
            full[place] = x
        found = PRIMITIVES[name](*_consistent(name, full), **case.attributes)
        return found[0] if name == "batch_norm" else found  # no gradient flows through the moments

    check_gradients(call, *(args[i] for i in places), order=2, tolerance=2e-6)


def _consistent(name, args):
    """The arguments, with those recomputed that a primitive expects to be functions of the others."""
    if name != "batch_norm_gradient":
        return args
    x = args[1].numpy()
    return [*args[:3], Tensor(x.mean((0, 2))), Tensor(x.var((0, 2)))]


def test_primitives_without_a_gradient_say_so():
    silent = {name for name, p in PRIMITIVES.items() if not p.is_differentiable}
    assert silent == {
        "argmax", "equal", "floor", "greater", "greater_equal", "isfinite", "isnan", "less", "less_equal",
        "logical_and", "logical_not", "logical_or", "not_equal", "sign",
    }  # fmt: skip
    for name in silent:
        case = CASES[name][0]
        args = [Tensor(x, requires_grad=True) if np.asarray(x).dtype == np.float64 else x for x in _wrapped_raw(case)]
        assert not PRIMITIVES[name](*args, **case.attributes).requires_grad
