"""Windows, streaks and the robust deviation against slow versions and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight.running_statistics import Streaks, Window, median

finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=1, max_size=40))
def test_median_is_numpys(values):
    assert median(np.array(values)) == np.median(values)


def test_median_of_nothing_is_nan():
    assert np.isnan(median(np.array([])))


def test_a_window_learns_only_what_is_finite():
    window = Window(4)
    for value in (1.0, float("nan"), 2.0, float("inf"), 3.0, -float("inf")):
        window.add(value)
    assert window.newest(9) == [1.0, 2.0, 3.0]
    assert window.median() == 2.0


def test_the_spread_of_normal_noise_is_its_standard_deviation():
    window = Window(4000)
    for value in np.random.default_rng(0).normal(5.0, 0.3, 4000):
        window.add(value)
    assert window.spread() == pytest.approx(0.3, rel=0.05)
    assert window.noise() == pytest.approx(0.3, rel=0.05)


def test_the_noise_does_not_see_a_trend():
    window = Window(400)
    for at, value in enumerate(np.random.default_rng(0).normal(0.0, 0.1, 400)):
        window.add(value + at)
    assert window.noise() == pytest.approx(0.1, rel=0.2)
    assert window.spread() > 50


def test_streaks_count_observations_and_forget_at_the_first_exception():
    streaks = Streaks()
    seen = np.ones(2, dtype=bool)
    for step, holds in enumerate(([True, False], [True, True], [False, True])):
        lengths = streaks.update(np.array(holds), seen, step).tolist()
    assert lengths == [0, 2]
    assert streaks.since[1] == 1


def test_streaks_keep_rows_that_were_not_observed_and_take_new_ones():
    streaks = Streaks()
    streaks.update(np.array([True]), np.array([True]), 0)
    streaks.update(np.array([False, True]), np.array([False, True]), 1)
    assert streaks.lengths.tolist() == [1, 1]


def test_a_window_that_is_asked_late_answers_as_one_that_was_always_asked():
    early, late = Window(7), Window(7)
    for at, value in enumerate(np.random.default_rng(3).normal(size=40).round(1)):
        for window in (early, late):
            window.add(float(value))
        early.median(), early.noise()
        if at in (3, 20, 39):
            assert late.range() == early.range() == (min(late.newest(7)), max(late.newest(7)))
            assert (late.spread(), late.median(), late.noise()) == (early.spread(), early.median(), early.noise())
