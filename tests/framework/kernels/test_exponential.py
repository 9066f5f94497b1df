"""The polynomial exponential against NumPy's in double precision."""

import numpy as np
import pytest
from mindscope.framework.kernels.exponential import JIT, exp
from numba import njit


@pytest.fixture(scope="module")
def exponential():
    @njit(**{**JIT, "cache": False})
    def run(x, out):
        for i in range(x.size):
            out[i] = exp(x[i])

    def call(x):
        out = np.empty_like(x)
        run(x, out)
        return out

    return call


def test_relative_error_in_single_precision(exponential):
    for low, high, bound in ((-87.3, 88.3, 4e-7), (88.3, 88.72, 1e-6)):
        x = np.linspace(low, high, 300_001).astype(np.float32)
        exact = np.exp(x.astype(np.float64))
        assert np.max(np.abs(exponential(x) - exact) / exact) < bound


def test_limits_are_those_of_ieee(exponential):
    x = np.array([np.nan, np.inf, -np.inf, 89.0, -104.0, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(exponential(x), np.array([np.nan, np.inf, 0, np.inf, 0, 1, 1], np.float32))


def test_double_precision_is_the_librarys(exponential):
    x = np.linspace(-700, 700, 1001)
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=3e-16)
