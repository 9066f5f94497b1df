"""One call of a primitive, and arrays to call it with: what the tables of cases are written in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    infers: bool = True  # False where the shape depends on the data


ROWS = {"axes": (1,), "keepdims": False}
ALL = {"axes": (0, 1), "keepdims": True}


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
        for how in (ROWS, ALL)
    ]


def imaginary(*shape):
    """Complex numbers, real and imaginary part as in `real`."""
    return np.asarray(real(*shape) + 1j * real(*shape))
