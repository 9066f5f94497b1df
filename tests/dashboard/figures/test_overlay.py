"""Several series over one axis."""

import math

import numpy as np
import pytest
from mindscope.dashboard.figures.series_figure import Line, overlay_figure
from mindscope.dashboard.theme import DARK, LIGHT

STEPS = np.array([0, 10, 20])
LINES = (
    Line("first", STEPS, np.array([0.0, 1.5, 3.0]), np.array([1.0, 2.0, 3.0])),
    Line("second", STEPS, np.array([0.0, 1.5, 3.0]), np.array([3.0, math.nan, -1.0])),
)


def drawn(figure):
    return [trace for trace in figure.data if trace.showlegend is not False]


def marks(figure):
    return [(list(trace.x), list(trace.text)) for trace in figure.data if trace.showlegend is False]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_where_one_line_is_chosen_the_others_stand_back(palette):
    figure = overlay_figure(LINES, palette, title="loss", chosen="second")
    assert [(line.name, line.opacity) for line in drawn(figure)] == [("first", 0.35), ("second", 1.0)]
    assert [line.line.color for line in drawn(figure)] == list(palette.lines[:2])


def test_nothing_is_chosen_by_an_unknown_name():
    assert [line.opacity for line in drawn(overlay_figure(LINES, LIGHT, title="loss", chosen="third"))] == [1.0, 1.0]


def test_a_nan_breaks_its_line_and_is_marked_where_it_stands():
    figure = overlay_figure(LINES, LIGHT, title="loss", axis="tokens")
    np.testing.assert_array_equal(drawn(figure)[1].y, [3.0, np.nan, -1.0])
    assert drawn(figure)[1].x.tolist() == [0.0, 1.5, 3.0]
    assert marks(figure) == [([1.5], ["step 10: NaN"])]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("tokens", "loss")


def test_a_log_axis_marks_what_it_cannot_hold():
    figure = overlay_figure(LINES, LIGHT, title="loss", log=True)
    assert figure.layout.yaxis.type == "log"
    np.testing.assert_array_equal(drawn(figure)[1].y, [3.0, np.nan, np.nan])
    assert marks(figure) == [([1.5, 3.0], ["step 10: NaN", "step 20: zero or less, not on a log axis"])]


def test_lines_are_told_apart_without_colour():
    assert [line.line.dash for line in drawn(overlay_figure(LINES, LIGHT, title="loss"))] == ["solid", "dash"]
