"""Calls of every primitive, with the NumPy formula that says what comes out; the contract suite walks them."""

import numpy as np
from mindscope.framework import Tensor, nn, ops  # noqa: F401  cells bring primitives of their own
from mindscope.framework.ops.indexing_ops import ARRAY, Slice
from mindscope.framework.random import from_bits

from tests.contracts import (
    primitive_cases_elementwise,
    primitive_cases_grouped,
    primitive_cases_linalg,
    primitive_cases_places,
    primitive_cases_random,
    primitive_cases_recurrent,
    primitive_cases_transforms,
    primitive_cases_windows,
)
from tests.contracts.numpy_formulas import (
    all_products,
    batch_norm,
    batch_norm_gradient,
    cross_entropy,
    cross_entropy_gradient,
    gelu,
    layer_norm,
    normal_distribution,
    put_back,
    rms_norm,
    scatter_add,
    sigmoid,
    slope,
    softmax,
)
from tests.contracts.primitive_case import Case, binary, real, reduction, unary, whole


class _Tap:
    def value(self, array):
        pass

    def gradient(self, array):
        pass


def _seen(tensors):
    return (None,) * len(tensors)


def _dropout_share(x, key, rate):
    """Not a formula but a property: each element is 0 or scaled; which of them is judged in tests/framework."""
    kept = ops.dropout(Tensor(np.ones(x.shape)), key, rate).numpy() != 0
    return np.where(kept, x / (1 - rate), 0.0)


_EPS = {"epsilon": 1e-5}


INDICES = [
    ((1,),),
    ((Slice(1, 4, 2), None, -1),),
    ((Ellipsis, Slice(None, None, -2), None),),
    ((Slice(-1, 0, -2), Slice(7, -9, 1)),),
    ((ARRAY,), np.array([0, 2, 2])),
    ((ARRAY, ARRAY), np.array([[0], [3]]), np.array([2, 2, -1])),
    ((2, None, ARRAY), np.array([0, -2])),
    ((None, Ellipsis, ARRAY), np.array(1)),
]


def numpy_index(index, arrays):
    rest = iter(arrays)
    return tuple(slice(*p) if isinstance(p, Slice) else next(rest) if p == ARRAY else p for p in index)


CASES: dict[str, list[Case]] = {
    "abs": unary(np.abs),
    "add": binary(np.add),
    "argmax": [Case((real(3, 4),), np.argmax, {"axis": axis}) for axis in (None, 0, 1)],
    "batch_norm": [
        Case(
            (x, real(3), real(3)),
            lambda x, w, b, epsilon: (
                batch_norm(x, w, b),
                x.mean((0, *range(2, x.ndim))),
                x.var((0, *range(2, x.ndim))),
            ),
            _EPS,
        )
        for x in (real(3, 3, 2), real(4, 3))
    ],
    "batch_norm_gradient": [
        Case(
            (real(3, 2, 2), x, real(2), x.mean((0, 2)), x.var((0, 2))),
            lambda g, x, w, m, v, epsilon: batch_norm_gradient(g, x, w),
            _EPS,
            1e-6,
        )
        for x in (real(3, 2, 2),)
    ],
    "broadcast_to": [Case((real(2, 1),), np.broadcast_to, {"shape": (3, 2, 4)})],
    "cast": [Case((real(2, 3),), lambda x, dtype: x.astype(dtype), {"dtype": np.dtype(d)}) for d in ("float64",)],
    "concat": [Case((real(2, 3), real(2, 1), real(2, 0)), lambda *p, axis: np.concatenate(p, axis), {"axis": 1})],
    "cos": unary(np.cos),
    "cross_entropy": [
        Case((real(4, 3), np.array([0, 2, -1, 1])), cross_entropy, {"ignore": -1, "smoothing": s}) for s in (0.0, 0.2)
    ],
    "cross_entropy_gradient": [
        Case((real(4), real(4, 3), np.array([0, 2, -1, 1])), cross_entropy_gradient, {"ignore": -1, "smoothing": s})
        for s in (0.0, 0.2)
    ],
    "divide": binary(np.true_divide),
    "dropout": [Case((real(4, 5), from_bits(12345678901234567890)), _dropout_share, {"rate": 0.4})],
    "einsum": [
        Case(
            (real(2, 3, 4), real(2, 4)),
            lambda a, b, subscripts: (a * b[:, None]).sum(2).T,
            {"subscripts": "bqd,bd->qb"},
        ),
        Case((real(2, 3), real(4)), lambda a, b, subscripts: np.outer(a.sum(1), b), {"subscripts": "ij,k->ik"}),
        Case((real(3, 2),), lambda a, subscripts: a.T, {"subscripts": "ij->ji"}),
    ],
    "equal": binary(np.equal),
    "exp": unary(np.exp),
    "expm1": unary(np.expm1),
    "gate": [
        Case((real(2, 3),), lambda x, show: x, {"show": lambda grads: grads}),
        Case((real(2), real(3, 1)), lambda a, b, show: (a, b), {"show": lambda grads: grads}),
    ],
    "gather": [Case((real(4, 3), whole(4, 2, 3)), lambda t, i: t[i]), Case((real(4), whole(4)), lambda t, i: t[i])],
    "gelu": unary(gelu),
    "gelu_exact": unary(lambda x: x * normal_distribution(x) if x.size else x),
    "gelu_exact_gradient": [Case((real(2, 3), real(2, 3)), slope(lambda x: x * normal_distribution(x)), rtol=1e-7)],
    "gelu_gradient": [Case((real(2, 3), real(2, 3)), slope(gelu), rtol=1e-7)],
    "getitem": [
        Case((real(4, 3), *arrays), lambda x, *arrays, index: x[numpy_index(index, arrays)], {"index": index})
        for index, *arrays in INDICES
    ],
    "greater": binary(np.greater),
    "greater_equal": binary(np.greater_equal),
    "identity": unary(lambda x: x),
    "stop_gradient": unary(lambda x: x),
    "isfinite": unary(np.isfinite, np.array([np.nan, np.inf, 1.0])),
    "isnan": unary(np.isnan, np.array([np.nan, np.inf, 1.0])),
    "layer_norm": [Case((real(2, 2, 4), real(4), real(4)), lambda x, w, b, epsilon: layer_norm(x, w, b), _EPS)],
    "layer_norm_gradient": [
        Case(
            (real(3, 4), real(3, 4), real(4)),
            lambda g, x, w, epsilon: (*all_products(layer_norm, 2)(g, x, w), g.sum(0)),
            _EPS,
            1e-7,
        )
    ],
    "less": binary(np.less),
    "less_equal": binary(np.less_equal),
    "linear": [
        Case((real(*batch, 3), real(2, 3), real(2)), lambda x, w, b: x @ w.T + b) for batch in ((4,), (2, 2), ())
    ],
    "log": unary(np.log, real(2, 3, low=0.3)),
    "log1p": unary(np.log1p, real(2, 3, low=-0.6)),
    "log_softmax": [Case((real(2, 4),), lambda x: np.log(softmax(x)))],
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
    "maximum": binary(np.maximum),
    "mean": reduction(np.mean),
    "min": reduction(np.min),
    "minimum": binary(np.minimum),
    "multiply": binary(np.multiply),
    "negative": unary(np.negative),
    "not_equal": binary(np.not_equal),
    "mark": [Case((real(2, 3),), lambda x, cell, call, index: x, {"cell": None, "call": 0, "index": 0})],
    "segment": [
        Case((real(2, 3),), lambda x, number, side: x, {"number": 0, "side": s}) for s in ("in", "out", "back")
    ],
    "mark_gradient": [Case((real(2, 3),), lambda g, cell, call, index: g, {"cell": None, "call": 0, "index": 0})],
    "observe": [Case((real(2, 3),), lambda x, hook: x, {"hook": _Tap()})],
    "observe_gradient": [Case((real(2, 3),), lambda x, hook: x, {"hook": _Tap()})],
    "power": [
        Case((real(2, 3, low=0.2), real(2, 3)), np.power),
        Case((real(2, 3), 3), np.power),
        Case((2.5, real(3)), np.power),
    ],
    "put": [
        Case(
            (real(*np.zeros((4, 3))[numpy_index(index, arrays)].shape), *arrays),
            put_back,
            {"index": index, "shape": (4, 3)},
        )
        for index, *arrays in INDICES
    ],
    "relu": unary(lambda x: np.where(x > 0, x, 0.0)),
    "relu_gradient": [Case((real(2, 3), real(2, 3)), lambda g, y: np.where(y > 0, g, 0.0))],
    "reshape": [Case((real(2, 6),), lambda x, shape: x.reshape(shape), {"shape": (3, -1)})],
    "rms_norm": [Case((real(2, 4), real(4)), lambda x, w, epsilon: rms_norm(x, w), {"epsilon": 1e-6})],
    "rms_norm_gradient": [
        Case(
            (real(3, 4), real(3, 4), real(4)),
            lambda g, x, w, epsilon: all_products(rms_norm, 2)(g, x, w),
            {"epsilon": 1e-6},
            1e-7,
        )
    ],
    "scatter_add": [Case((real(2, 3, 2), whole(4, 2, 3)), scatter_add, {"rows": 4})],
    "sigmoid": unary(sigmoid),
    "show": [
        Case((real(2, 3),), lambda x, hook: x, {"hook": _seen}),
        Case((real(2, 3), real(4)), lambda x, y, hook: (x, y), {"hook": _seen}),
    ],
    "sign": unary(np.sign),
    "silu": unary(lambda x: x * sigmoid(x)),
    "silu_gradient": [Case((real(2, 3), real(2, 3)), slope(lambda x: x * sigmoid(x)), rtol=1e-7)],
    "sin": unary(np.sin),
    "softmax": [
        Case((real(2, 4),), softmax, {"scale": 1.0, "causal": False}),
        Case((real(2, 3, 3),), softmax, {"scale": 0.7, "causal": True}),
        Case((real(2, 2, 4),), softmax, {"scale": 0.7, "causal": True}),
    ],
    "softmax_gradient": [
        Case(
            (real(2, 4), softmax(real(2, 4))),
            lambda g, y, scale, causal: scale * y * (g - (g * y).sum(-1, keepdims=True)),
            {"scale": 0.7, "causal": False},
        )
    ],
    "split": [
        Case(
            (real(2, 5, 2),),
            lambda x, sizes, axis: (x[:, :2], x[:, 2:2], x[:, 2:]),
            {"sizes": (2, 0, 3), "axis": 1},
        )
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
    "swapaxes": [
        Case((real(2, 3, 4),), lambda x, first, second: np.moveaxis(x, (0, 2), (2, 0)), {"first": 0, "second": -1})
    ],
    "tanh": unary(np.tanh),
    "transpose": [Case((real(2, 3, 4),), lambda x, axes: np.einsum("abc->cab", x), {"axes": (2, 0, 1)})],
    "where": [
        Case((np.array([[True], [False]]), real(2, 3), real(3)), np.where),
        Case((np.array(True), 1.5, real()), np.where),
        Case((np.array([True, False]), real(), 2.5), np.where),
    ],
}

#: Those without a gradient.
SILENT = {
    "argmax", "equal", "greater", "greater_equal", "isfinite", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "not_equal", "sign", "stop_gradient",
}  # fmt: skip

#: The other families: each file has a table of cases and a set of names without a gradient.
for _family in (
    primitive_cases_elementwise,
    primitive_cases_grouped,
    primitive_cases_linalg,
    primitive_cases_places,
    primitive_cases_random,
    primitive_cases_transforms,
    primitive_cases_recurrent,
    primitive_cases_windows,
):
    CASES.update(_family.CASES)
    SILENT.update(_family.SILENT)
for _name, _cases in primitive_cases_elementwise.COMPLEX.items():
    CASES[_name] = CASES[_name] + _cases
