"""Calls of the primitives that slide windows: convolution and pooling over one to three axes."""

import numpy as np
from mindscope.framework.ops.convolution_ops import ConvolutionWindow
from mindscope.framework.ops.sliding_window import PoolWindow

from tests.contracts.numpy_formulas import jacobian_product
from tests.contracts.primitive_case import Case, real, whole
from tests.contracts.window_formulas import avg_pool, convolution, max_pool, put_places

_PLAIN = ConvolutionWindow((1, 1), ((0, 0), (0, 0)), (1, 1), 1)
_SAME = ConvolutionWindow((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
_RICH = ConvolutionWindow((2, 1), ((1, 1), (2, 2)), (1, 2), 2)
_ROW = ConvolutionWindow((2,), ((1, 2),), (2,), 1)
_VOLUME = ConvolutionWindow((1, 2, 1), ((1, 0), (0, 1), (1, 1)), (2, 1, 1), 1)

_POOL = PoolWindow((3, 2), (2, 2), ((1, 1), (1, 1)), (1, 1))
_POOL_RICH = PoolWindow((2, 3), (2, 2), ((0, 1), (1, 0)), (2, 1), ceil=True)
_POOL_ROW = PoolWindow((3,), (2,), ((1, 0),), (1,), ceil=True)
_POOL_VOLUME = PoolWindow((2, 1, 2), (1, 2, 1), ((1, 0), (0, 0), (0, 1)), (1, 1, 2))


def _of_input(g, w, window, shape):
    return jacobian_product(lambda x: convolution(x, w, window), 0)(g, np.zeros(shape))


def _of_weight(g, x, window, shape):
    return jacobian_product(lambda w: convolution(x, w, window), 0)(g, np.zeros(shape))


def _avg_gradient(g, shape, **how):
    return jacobian_product(lambda x: avg_pool(x, **how), 0)(g, np.zeros(shape))


def _max(*shape, window):
    return Case((real(*shape),), max_pool, {"window": window})


def _avg(*shape, window, divisor):
    return Case((real(*shape),), avg_pool, {"window": window, "divisor": divisor})


CASES: dict[str, list[Case]] = {
    "avg_pool": [
        _avg(2, 1, 5, 4, window=_POOL, divisor="padded"),
        _avg(1, 2, 5, 4, window=_POOL_RICH, divisor="padded"),
        _avg(1, 2, 5, 4, window=_POOL_RICH, divisor="inside"),
        _avg(2, 1, 6, window=_POOL_ROW, divisor="none"),
        _avg(1, 1, 2, 3, 3, window=_POOL_VOLUME, divisor="inside"),
    ],
    "avg_pool_gradient": [
        Case((real(2, 1, 3, 3),), _avg_gradient, {"window": _POOL, "divisor": "padded", "shape": (2, 1, 5, 4)}),
        Case((real(1, 1, 3, 2),), _avg_gradient, {"window": _POOL_RICH, "divisor": "inside", "shape": (1, 1, 5, 4)}),
    ],
    "conv": [
        Case((real(2, 2, 4, 3), real(2, 2, 2, 2)), convolution, {"window": _PLAIN}),
        Case((real(2, 4, 3, 4), real(2, 2, 2, 2)), convolution, {"window": _RICH}),
        Case((real(2, 2, 2, 3), real(3, 2, 1, 1)), convolution, {"window": _PLAIN}),
        Case((real(2, 2, 5), real(3, 2, 2)), convolution, {"window": _ROW}),
        Case((real(1, 1, 3, 3, 2), real(2, 1, 2, 2, 2)), convolution, {"window": _VOLUME}),
    ],
    "conv_bias": [
        Case(
            (real(2, 2, 4, 3), real(3, 2, 2, 2), real(3)),
            lambda x, w, b, window: convolution(x, w, window) + b[:, None, None],
            {"window": _PLAIN},
        ),
        Case(
            (real(2, 2, 3, 4), real(2, 2, 3, 3), real(2)),
            lambda x, w, b, window: convolution(x, w, window) + b[:, None, None],
            {"window": _SAME},
        ),
        Case(
            (real(1, 2, 6), real(2, 2, 2), real(2)),
            lambda x, w, b, window: convolution(x, w, window) + b[:, None],
            {"window": _ROW},
        ),
    ],
    "conv_input_gradient": [
        Case((real(2, 2, 2, 5), real(2, 2, 2, 2)), _of_input, {"window": _RICH, "shape": (2, 4, 3, 3)}, 1e-8),
        Case(
            (real(1, 2, 3, 2, 3), real(2, 1, 2, 2, 2)), _of_input, {"window": _VOLUME, "shape": (1, 1, 4, 3, 2)}, 1e-8
        ),
    ],
    "conv_weight_gradient": [
        Case((real(2, 2, 2, 5), real(2, 4, 3, 3)), _of_weight, {"window": _RICH, "shape": (2, 2, 2, 2)}, 1e-8),
        Case((real(1, 2, 3), real(1, 2, 4)), _of_weight, {"window": _ROW, "shape": (2, 2, 2)}, 1e-8),
    ],
    "max_pool": [
        _max(2, 1, 5, 4, window=_POOL),
        _max(1, 2, 5, 4, window=_POOL_RICH),
        _max(2, 1, 6, window=_POOL_ROW),
        _max(1, 1, 2, 3, 3, window=_POOL_VOLUME),
    ],
    "pick_places": [
        Case(
            (real(2, 1, 2, 3), whole(6, 2, 1, 2, 2)),
            lambda x, p: np.take_along_axis(x.reshape(2, 1, 6), p.reshape(2, 1, 4), -1).reshape(p.shape),
        )
    ],
    "put_places": [
        Case((real(2, 1, 2, 2), whole(6, 2, 1, 2, 2)), put_places, {"shape": (2, 1, 2, 3)}),
        Case((real(1, 2, 3), whole(4, 1, 2, 3)), put_places, {"shape": (1, 2, 4)}),
    ],
}

#: All of them have a gradient.
SILENT: set[str] = set()
