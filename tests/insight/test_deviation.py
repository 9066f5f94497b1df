"""Deviation from a row's own history, against a slow version of the same definition."""

import numpy as np
import pytest
from mindscope.insight import deviation

from ..matrices import matrix_of

RANDOM = np.random.default_rng(3)


def slow_deviation(row: np.ndarray) -> np.ndarray:
    """One positive row with one value a column, column by column with NumPy's own medians."""
    scaled = np.log10(np.maximum(row, np.finfo(np.float32).tiny))
    out = np.full(len(row), np.nan)
    for column in range(5, len(row)):
        history = scaled[max(0, column - 32) : column]
        history = history[np.isfinite(history)]
        if len(history) >= 5:
            center = np.median(history)
            spread = max(1.4826 * np.median(np.abs(history - center)), 0.02)
            out[column] = (scaled[column] - center) / spread
    return out


def test_it_agrees_with_the_slow_version_column_by_column():
    values = np.exp(RANDOM.normal(0, 0.5, (7, 90)))
    values[2, 10:30] = np.nan
    expected = np.stack([slow_deviation(row) for row in values])
    np.testing.assert_allclose(deviation(matrix_of(values)), expected, rtol=1e-9)


def test_a_spike_stands_out_by_far_and_a_trend_does_not():
    values = np.exp(np.linspace(0, 1, 200) + RANDOM.normal(0, 0.05, (1, 200)))
    values[0, 120] *= 20
    found = deviation(matrix_of(values))[0]
    assert found[120] > 20
    assert np.nanmax(np.abs(np.delete(found, 120))) < 8


def test_one_spike_does_not_spoil_the_history_of_the_columns_after_it():
    values = np.exp(RANDOM.normal(0, 0.05, (1, 60)))
    without = deviation(matrix_of(values))[0, 31:]
    values[0, 30] *= 1000
    np.testing.assert_allclose(deviation(matrix_of(values))[0, 31:], without, atol=1.5)


@pytest.mark.parametrize("sign", [1, -1], ids=["high", "low"])
def test_of_a_column_the_extreme_farther_from_history_counts(sign):
    low = np.ones((1, 20))
    high = np.ones((1, 20))
    (high if sign > 0 else low)[0, 15] = 100.0**sign
    assert deviation(matrix_of(low, high))[0, 15] * sign > 50


def test_signed_rows_are_compared_as_they_are():
    values = RANDOM.normal(0, 1, (1, 50))
    values[0, 40] = -30.0
    assert deviation(matrix_of(values))[0, 40] < -8


def test_a_constant_row_never_deviates_and_too_little_history_says_nothing():
    found = deviation(matrix_of(np.full((2, 12), 3.0)))
    assert np.isnan(found[:, :5]).all()
    assert (found[:, 5:] == 0).all()


def test_a_run_of_no_columns_has_no_deviation():
    assert deviation(matrix_of(np.empty((3, 0)))).shape == (3, 0)


@pytest.mark.parametrize("columns", [40, 5000])
def test_columns_that_are_compared_together_are_those_that_are_compared_alone(columns):
    values = np.exp(RANDOM.normal(0, 0.5, (3, columns)))
    values[1, 7:11] = [np.nan, np.inf, np.nan, np.inf]
    whole = deviation(matrix_of(values))
    for column in (5, 31, 32, 33, columns - 1):
        alone = deviation(matrix_of(values[:, max(0, column - 32) : column + 1]))[:, -1]
        np.testing.assert_array_equal(whole[:, column], alone)
