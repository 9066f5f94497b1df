"""The moving average of a series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.figures.smoothing import smoothed


def slow(values, weight):
    """One value after the other, as the definition reads."""
    out, total, count = [], 0.0, 0.0
    for value in values:
        total, count = total * weight, count * weight
        if np.isfinite(value):
            total, count = total + value, count + 1
        out.append(total / count if np.isfinite(value) else value)
    return out


@given(st.lists(st.floats(-1e3, 1e3) | st.just(np.nan) | st.just(np.inf), min_size=1, max_size=60), st.floats(0, 0.99))
def test_it_is_the_average_that_the_definition_gives(values, weight):
    np.testing.assert_allclose(smoothed(np.array(values), weight), slow(values, weight), rtol=1e-4, atol=1e-2)


def test_a_constant_stays_itself_from_the_first_value_on():
    np.testing.assert_allclose(smoothed(np.full(2000, 3.0), 0.99), 3.0)


def test_without_a_weight_nothing_changes():
    values = np.array([1.0, np.nan, 5.0])
    assert smoothed(values, 0.0) is values


def test_a_weight_of_one_is_refused():
    with pytest.raises(ValueError, match="from 0 to below 1, got 1"):
        smoothed(np.ones(2), 1)
