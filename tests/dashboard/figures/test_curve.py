"""The curve: its line, its marks, its flags."""

import numpy as np
import pytest
from mindscope.dashboard.figures.curve_figure import LINE_TRACE, MARK_TRACE, curve_figure, flags_of, points_of
from mindscope.dashboard.theme import DARK, LIGHT

from ..recorded import findings

VALUES = np.array([3.0, 2.0, np.nan, 1.0])


def _figure(palette=LIGHT, **options):
    points = points_of(np.arange(4), VALUES, log=options.get("log", False))
    return curve_figure(points, palette, name="loss", **options)


def test_live_traces_are_lists_that_plotly_can_extend():
    data = _figure().to_plotly_json()["data"]
    assert isinstance(data[LINE_TRACE]["x"], list | tuple)
    assert data[LINE_TRACE]["name"] == "loss"
    assert list(data[LINE_TRACE]["y"]) == [3.0, 2.0, None, 1.0]
    assert list(data[MARK_TRACE]["x"]) == [2]


def test_findings_of_one_step_are_one_flag_with_the_worst_severity():
    info, error, later = findings()
    same_step = [error, info.__class__(**{**_fields(info), "first_step": error.first_step}), later]
    flags = flags_of(same_step)
    assert [flag.step for flag in flags] == [180, 183]
    assert flags[0].severity == "error"
    assert "decoder.2.mlp.act" in flags[0].text


def _fields(finding):
    return {name: getattr(finding, name) for name in finding.__slots__}


def test_every_flag_has_a_symbol_and_a_line():
    flags = flags_of(findings())
    figure = _figure(flags=flags)
    assert list(figure.data[2].x) == [90, 180, 183]
    assert len(figure.layout.shapes) == 3
    assert len(set(figure.data[2].marker.symbol)) == 2


def test_log_axes_are_logarithmic():
    assert _figure(log=True).layout.yaxis.type == "log"
    assert _figure().layout.yaxis.type == "linear"


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_colours_are_those_of_the_scheme(palette):
    figure = _figure(palette)
    assert figure.data[LINE_TRACE].line.color == palette.lines[0]
    assert figure.layout.template.layout.font.color == palette.text


def test_one_point_is_visible_without_a_line():
    figure = curve_figure(points_of(np.arange(1), np.ones(1)), LIGHT, name="loss")
    assert figure.data[LINE_TRACE].mode == "lines+markers"
