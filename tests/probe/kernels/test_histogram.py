"""Histograms against NumPy's."""

import numpy as np
import pytest
from mindscope.probe.kernels import edges_between, histogram_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_counts_equal_numpys(dtype):
    x = (np.random.default_rng(0).normal(size=10_000) * 10).astype(dtype)
    edges, counts = histogram_of(x, float(x.min()), float(x.max()), bins=16)
    expected, _ = np.histogram(x.astype(np.float64), edges)
    assert np.abs(counts - expected).sum() <= 4  # a value on an edge may fall to either side
    assert counts.sum() == x.size


def test_values_that_are_not_finite_are_in_no_bin():
    x = np.array([0.0, 1.0, np.nan, np.inf, -np.inf])
    assert histogram_of(x, 0.0, 1.0, bins=2)[1].tolist() == [1, 1]


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-20, 1e30])
def test_a_constant_array_has_a_histogram_with_width(value):
    edges = edges_between(value, value, 4)
    assert edges[0] < value < edges[-1]
    assert (np.diff(edges) > 0).all()
