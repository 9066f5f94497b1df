"""Cases of element-wise primitives: angles, special functions, rounding, bits, complex parts."""

import math
from statistics import NormalDist

import numpy as np

from tests.contracts.numpy_formulas import slope
from tests.contracts.primitive_case import Case, binary, imaginary, real, unary, whole

_ERF = np.vectorize(math.erf, otypes=[float])
_ERFC = np.vectorize(math.erfc, otypes=[float])
_LGAMMA = np.vectorize(math.lgamma, otypes=[float])
_QUANTILE = np.vectorize(lambda p: NormalDist().inv_cdf((p + 1) / 2) / math.sqrt(2), otypes=[float])


def inside(*shape):
    """Numbers from -0.9 to 0.9."""
    return real(*shape, low=-0.9, high=0.9)


def bits(function):
    a, b = whole(100, 2, 3) - 50, whole(100, 3)
    return [
        Case((a, b), function),
        Case((a.astype(np.uint8), b.astype(np.uint8)), function),
        Case((a, 6), function),
        Case((5, b), function),
    ]


def shifts(function):
    a, b = whole(200, 2, 3) - 100, whole(8, 3)
    return [Case((a, b), function), Case((a.astype(np.uint8), 3), function), Case((7, b), function)]


def _widened(function):
    """A shift of Python's integers, which have no end, cut to 64 bits."""

    def evaluate(a, b):
        return np.vectorize(function, otypes=[np.int64])(a, b)

    return evaluate


def _divisions(function):
    a, b = real(2, 3, low=-5.3, high=5.1), real(3, low=0.6, high=2.2)
    return [
        Case((a, b), function),
        Case((-a, -b), function),
        Case((whole(20, 2, 3) - 9, np.array([-3, 4, 7])), function),
        Case((a, 1.7), function),
        Case((7.3, b), function),
    ]


CASES = {
    "acos": unary(np.arccos, inside(2, 3), inside(3) + 0.4j),
    "acosh": unary(np.arccosh, real(2, 3, low=1.2, high=4.0)),
    "asin": unary(np.arcsin, inside(2, 3)),
    "asinh": unary(np.arcsinh),
    "atan": unary(np.arctan),
    "atan2": [*binary(np.arctan2)],
    "atanh": unary(np.arctanh, inside(2, 3)),
    "bitcast": [
        Case((whole(99, 2, 3).astype(np.int32),), lambda x, dtype: x.view(dtype), {"dtype": np.dtype("uint32")}),
        Case((whole(99, 3),), lambda x, dtype: x.view(dtype).reshape(3, 4), {"dtype": np.dtype("uint16")}),
        Case(
            (whole(99, 3, 4).astype(np.uint16),),
            lambda x, dtype: x.reshape(-1).view(dtype),
            {"dtype": np.dtype("int64")},
        ),
    ],
    "bitwise_and": bits(np.bitwise_and),
    "bitwise_not": unary(np.invert, whole(99, 3), np.array([True, False])),
    "bitwise_or": bits(np.bitwise_or),
    "bitwise_xor": bits(np.bitwise_xor),
    "cbrt": unary(np.cbrt, real(2, 3)),
    "ceil": unary(np.ceil, real(2, 3), whole(9, 3)),
    "clip": [
        Case((real(2, 3),), lambda x, low, high: np.minimum(np.maximum(x, low), high), {"low": -0.7, "high": 0.9})
    ],
    "complex": [Case((real(2, 3), real(3)), lambda a, b: a + 1j * b)],
    "conj": unary(np.conj, imaginary(2, 3), imaginary()),
    "copysign": [Case((real(2, 3), real(3)), np.copysign), Case((real(3), -1.0), np.copysign)],
    "cosh": unary(np.cosh, real(2, 3), imaginary(3)),
    "erf": unary(_ERF, real(2, 3), real()),
    "erfc": unary(_ERFC, real(2, 3)),
    "erfinv": unary(_QUANTILE, inside(2, 3), np.array([0.97, -0.95, 1e-3])),
    "exp2": unary(np.exp2),
    "floor": unary(np.floor, real(2, 3), whole(9, 3)),
    "floor_divide": _divisions(np.floor_divide),
    "fmod": _divisions(np.fmod),
    "hypot": binary(np.hypot),
    "imag": unary(np.imag, imaginary(2, 3), imaginary()),
    "isclose": [
        Case(
            (np.array([1.0, 1.0, np.nan, np.inf]), np.array([1.0 + 1e-7, 1.1, np.nan, np.inf])),
            lambda a, b, **how: np.array([True, False, how["equal_nan"], True]),
            {"rtol": 1e-5, "atol": 1e-8, "equal_nan": nan},
        )
        for nan in (False, True)
    ],
    "isinf": [
        Case(
            (np.array([np.nan, np.inf, -np.inf, 1.0]),),
            lambda x, positive, negative: np.array([False, positive, negative, False]),
            {"positive": positive, "negative": negative},
        )
        for positive, negative in ((True, True), (True, False), (False, True))
    ],
    "left_shift": shifts(_widened(lambda a, b: int(a) << int(b))),
    "lgamma": unary(_LGAMMA, real(2, 3, low=0.2, high=5.0), np.array([-0.3, -1.6, -2.4])),
    "log10": unary(np.log10, real(2, 3, low=0.3)),
    "log2": unary(np.log2, real(2, 3, low=0.3)),
    "logaddexp": binary(np.logaddexp),
    "logical_xor": binary(np.logical_xor),
    "polygamma": [
        Case((x,), lambda x, order: slope(_LGAMMA)(np.ones(x.shape), x), {"order": 0}, 1e-7)
        for x in (real(2, 3, low=0.7, high=6.0), np.array([-0.4, -1.5]))
    ]
    + [
        Case(
            (real(2, 3, low=0.7, high=9.0),),
            # The series itself to the millionth term, and its tail by the integral.
            lambda x, order: np.sum(1.0 / (x[..., None] + np.arange(200000)) ** 2, -1) + 1 / (x + 199999.5),
            {"order": 1},
            1e-9,
        )
    ],
    "real": unary(np.real, imaginary(2, 3), imaginary()),
    "remainder": _divisions(np.remainder),
    "right_shift": shifts(_widened(lambda a, b: int(a) >> int(b))),
    "round": unary(np.rint, real(2, 3), np.array([0.5, 1.5, -2.5]), whole(9, 3)),
    "sinh": unary(np.sinh, real(2, 3), imaginary(3)),
    "softplus": unary(lambda x: np.log(1 + np.exp(x)), real(2, 3), np.array([0.0])),
    "tan": unary(np.tan, real(2, 3, low=-1.2, high=1.2), imaginary(3)),
    "trunc": unary(np.trunc, real(2, 3), whole(9, 3)),
}
CASES["left_shift"][1] = Case((np.array([3, 200], np.uint8), 3), lambda a, b: np.array([24, 64], np.uint8))
SILENT = {
    "bitcast", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "floor", "floor_divide", "isclose",
    "isinf", "left_shift", "logical_xor", "right_shift", "round", "trunc",
}  # fmt: skip
#: Those of the first table that take complex numbers too.
COMPLEX = {
    "abs": unary(np.abs, imaginary(2, 3)),
    "add": [Case((imaginary(2, 3), imaginary(3)), np.add)],
    "cast": [
        Case((imaginary(2, 3),), lambda x, dtype: x.real, {"dtype": np.dtype("float64")}),
        Case((real(2, 3),), lambda x, dtype: x + 0j, {"dtype": np.dtype("complex128")}),
    ],
    "cos": unary(np.cos, imaginary(2, 3)),
    "divide": [Case((imaginary(2, 3), imaginary(3)), np.divide), Case((imaginary(2), 1.5), np.divide)],
    "einsum": [Case((imaginary(2, 3), imaginary(3, 2)), lambda a, b, subscripts: a @ b, {"subscripts": "ij,jk->ik"})],
    "exp": unary(np.exp, imaginary(2, 3)),
    "linear": [Case((imaginary(2, 3), imaginary(2, 3), imaginary(2)), lambda x, w, b: x @ w.T + b)],
    "log": unary(np.log, imaginary(2, 3)),
    "log1p": unary(np.log1p, imaginary(2, 3)),
    "expm1": unary(np.expm1, imaginary(2, 3)),
    "matmul": [
        Case((imaginary(*a), imaginary(*b)), np.matmul)
        for a, b in (((2, 3), (3, 2)), ((3,), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 3), (3,)))
    ],
    "mean": [Case((imaginary(2, 3),), lambda x, axes, keepdims: x.mean(), {"axes": (0, 1), "keepdims": False})],
    "multiply": [Case((imaginary(2, 3), imaginary(3)), np.multiply), Case((imaginary(2), 1.5), np.multiply)],
    "negative": unary(np.negative, imaginary(2)),
    "power": [Case((imaginary(2, 3), imaginary(3)), np.power), Case((imaginary(2), 3), np.power)],
    "sin": unary(np.sin, imaginary(2, 3)),
    "sqrt": unary(np.sqrt, imaginary(2, 3)),
    "square": unary(np.square, imaginary(2, 3)),
    "subtract": [Case((imaginary(2, 3), imaginary(3)), np.subtract)],
    "sum": [Case((imaginary(2, 3),), lambda x, axes, keepdims: x.sum(0), {"axes": (0,), "keepdims": False})],
    "tanh": unary(np.tanh, imaginary(2, 3)),
    "where": [Case((np.array([True, False]), imaginary(2, 2), imaginary(2)), np.where)],
}
