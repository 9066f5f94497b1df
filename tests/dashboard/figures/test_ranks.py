"""Bars of work and waiting."""

import math

from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.figures.pace_figure import RankPace, pace_figure, paces_of, skew_s, slowest
from mindscope.dashboard.theme import LIGHT


def test_the_slowest_rank_is_the_one_that_hardly_waits():
    paces = paces_of({0: 0.5, 1: 0.5, 2: 0.5}, {0: 0.2, 1: 0.01, 2: 0.2})
    assert slowest(paces) == RankPace(1, 0.5, 0.01)
    assert abs(skew_s(paces) - 0.19) < 1e-12


def test_one_rank_is_compared_with_nobody():
    assert slowest(paces_of({0: 0.5}, {})) is None
    assert math.isnan(skew_s(()))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=8))
def test_work_and_waiting_are_the_bars_of_each_rank(pairs):
    paces = paces_of({at: step for at, (step, _) in enumerate(pairs)}, {at: wait for at, (_, wait) in enumerate(pairs)})
    work, wait = pace_figure(paces, LIGHT).data
    assert list(work.x) == [max(0.0, step - waited) for step, waited in pairs]
    assert list(wait.x) == [waited for _, waited in pairs]
