"""Series held against limits and findings."""

import numpy as np
import pytest
from mindscope.dashboard.figures.curve_figure import Flag, points_of
from mindscope.dashboard.figures.series_figure import LimitLine, SeriesLine, series_figure
from mindscope.dashboard.theme import DARK


def track(name, values, places=None):
    points = points_of(np.arange(len(values)), np.array(values, np.float64))
    at = places or tuple(range(len(values)))
    return SeriesLine(name, points, tuple(at), tuple(at[step] for step in points.mark_x))


def test_every_track_has_its_own_colour_and_a_legend_appears_with_the_second():
    assert not series_figure([track("a", [1, 2])], DARK, title="step").layout.showlegend
    both = series_figure([track("a", [1, 2]), track("b", [2, 3])], DARK, title="step")
    assert both.layout.showlegend
    assert len({trace.line.color for trace in both.data}) == 2


def test_more_tracks_than_colours_differ_in_their_dash():
    many = series_figure([track(str(index), [1, 2]) for index in range(12)], DARK, title="step")
    assert len({(trace.line.color, trace.line.dash) for trace in many.data}) == 12


def test_what_is_not_finite_breaks_the_line_and_stands_as_a_mark_where_its_step_is():
    line, marks = series_figure([track("a", [1.0, np.inf, 2.0], (10.0, 20.0, 30.0))], DARK, title="epoch").data
    np.testing.assert_array_equal(line.y, [1.0, np.nan, 2.0])
    assert line.customdata.tolist() == [0, 1, 2]
    assert marks.x == (20.0,)
    assert "+Inf" in marks.text[0]


def test_levels_are_lines_across_unless_a_log_axis_cannot_hold_them():
    levels = (LimitLine(3.0, "limit"), LimitLine(-1.0, "lowest"))
    assert len(series_figure([track("a", [1, 2])], DARK, title="step", levels=levels).layout.shapes) == 2
    logarithmic = series_figure([track("a", [1, 2])], DARK, title="step", levels=levels, log_y=True)
    assert [shape.y0 for shape in logarithmic.layout.shapes] == [3.0]
    assert [10**words.y for words in logarithmic.layout.annotations] == pytest.approx([3.0])
    assert logarithmic.layout.yaxis.type == "log"


def test_findings_stand_where_they_began():
    flag = Flag(1, "error", "Dead units at head")
    figure = series_figure([track("a", [1, 2])], DARK, title="time", flags=[("2026-11-21T12:00:00", flag)])
    assert figure.data[-1].x == ("2026-11-21T12:00:00",)
    assert "since step 1" in figure.data[-1].text[0]


def test_steps_travel_beside_the_places_only_where_these_are_something_else():
    (steps,) = series_figure([track("a", [1, 2])], DARK, title="step").data
    (epochs,) = series_figure([track("a", [1, 2], (0.1, 0.2))], DARK, title="epoch").data
    assert (steps.customdata, epochs.customdata.tolist()) == (None, [0, 1])
    assert "step %{x}<" in steps.hovertemplate
    assert "step %{customdata}<" in epochs.hovertemplate
