"""Histories that learn neither a spike nor what is not finite, and a trend against a slow count of pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight.running_statistics import RobustBaseline, Streak, trend

CALM = [2.0 + 0.05 * (-1) ** step for step in range(30)]


def learned(values, **options):
    usual = RobustBaseline(**options)
    for value in values:
        usual.update(value)
    return usual


def test_nothing_is_judged_while_it_warms_up():
    usual = RobustBaseline(warm_up=5)
    assert all(np.isnan(usual.update(value)) for value in (1.0, 9.0, 1.0, 9.0, 1.0))
    assert np.isfinite(usual.update(1.0))


def test_a_spike_is_strange_to_both_sides_and_is_not_learned():
    for spike in (12.0, -8.0):
        usual = learned(CALM)
        before = usual.value
        assert abs(usual.update(spike)) > 8
        assert usual.value == before


def test_what_has_come_to_stay_becomes_usual():
    usual = learned([*CALM, *[12.0] * 60])
    assert usual.value == 12.0
    assert abs(usual.update(12.0)) < 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_neither_judged_nor_learned(value):
    usual = learned(CALM)
    assert np.isnan(usual.update(value))
    assert usual.value == learned(CALM).value


def test_positive_values_are_judged_in_decades():
    values = [10.0 ** (0.1 * (-1) ** step) for step in range(30)]
    baseline, scaled = learned(values, is_log=True), learned([1e-6 * value for value in values], is_log=True)
    assert baseline.update(100.0) == pytest.approx(scaled.update(1e-4))


def test_a_streak_begins_anew_after_an_exception():
    streak = Streak()
    assert [streak.update(holds, step) for step, holds in enumerate([True, True, False, True])] == [1, 2, 0, 1]
    assert streak.since == 3


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20))
def test_the_trend_counts_pairs(values):
    pairs = [(later > earlier) - (later < earlier) for at, earlier in enumerate(values) for later in values[at + 1 :]]
    count = len(values)
    expected = sum(pairs) / (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    assert trend(values) == pytest.approx(expected)
    assert trend(values[::-1]) == pytest.approx(-expected)


def test_twelve_that_only_rise_score_four_and_a_half():
    assert trend(range(12)) == pytest.approx(4.5, abs=0.05)
    assert trend([1.0, 2.0]) == 0
