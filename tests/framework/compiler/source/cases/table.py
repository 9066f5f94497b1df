"""The table of cases, and how a function comes into it."""

import numpy as np
from mindscope.framework import Tensor

CASES = {}


def t(*numbers):
    return Tensor(np.array(numbers, np.float64))


def s(number):
    return Tensor(np.float64(number))


POINTS = [(t(1.0, 2.0, 3.0),), (t(-1.0, -2.0, 0.5),), (t(10.0, -20.0, 5.0),), (t(0.0, 0.0, 0.0),)]
SCALARS = [(s(1.0),), (s(-2.0),), (s(7.5),), (s(0.0),)]


def case(*arguments):
    def register(fn):
        assert fn.__name__ not in CASES
        CASES[fn.__name__] = fn, arguments or POINTS
        return fn

    return register
