"""No point is ever dropped: what no axis can hold becomes a mark."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.figures.curve_figure import points_of


def _points(values, **options):
    return points_of(np.arange(len(values)), np.array(values, dtype=np.float64), **options)


def test_nan_and_both_infinities_are_three_different_marks():
    points = _points([1.0, np.nan, np.inf, -np.inf])
    assert points.y == (1.0, None, None, None)
    assert points.mark_x == (1, 2, 3)
    assert points.mark_kind == ("nan", "positive", "negative")
    assert len(set(points.mark_symbol)) == 3


def test_what_is_not_positive_is_a_mark_on_a_log_axis_only():
    assert _points([-1.0, 0.0, 2.0]).mark_kind == ()
    assert _points([-1.0, 0.0, 2.0], log=True).mark_kind == ("below", "below")


def test_steps_with_broken_elements_are_marked_though_their_value_is_drawn():
    points = _points([1.0, 2.0, 3.0], broken=(1,))
    assert points.y == (1.0, 2.0, 3.0)
    assert points.mark_x == (1,)
    assert "NaN" in points.mark_text[0]


@given(st.lists(st.floats(width=64), max_size=50), st.booleans())
def test_every_value_is_either_on_the_line_or_a_mark(values, log):
    points = _points(values, log=log)
    drawn = sum(value is not None for value in points.y)
    assert drawn + len(points.mark_x) == len(values)
    assert all(np.isfinite(value) and (value > 0 or not log) for value in points.y if value is not None)
