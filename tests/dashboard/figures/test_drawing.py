"""Figures whose parts are taken as they are must still be figures to Plotly's own checks."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
from mindscope.dashboard.figures.curve_figure import Flag, curve_figure, points_of
from mindscope.dashboard.figures.drawing import drawing, packed
from mindscope.dashboard.figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from mindscope.dashboard.figures.series_figure import LimitLine, SeriesLine, series_figure
from mindscope.dashboard.pages.tensor.tensor_figures import BandEdge, band_figure
from mindscope.dashboard.theme import DARK, LIGHT
from mindscope.storage import Matrix

POINTS = points_of(np.arange(5), np.array([1.0, np.nan, np.inf, -2.0, 3.0]))
FLAGS = [Flag(1, "error", "NaN"), Flag(3, "info", "spike")]


def held():
    track = SeriesLine("a", POINTS, POINTS.x, POINTS.mark_x)
    places = [(flag.step, flag) for flag in FLAGS]
    return series_figure([track, track], DARK, title="step", levels=[LimitLine(2.0, "limit")], flags=places, selected=2)


def band():
    edge = BandEdge(POINTS, POINTS.x)
    return band_figure(edge, edge, edge, LIGHT, title="epoch")


def curve():
    return curve_figure(POINTS, LIGHT, name="loss", flags=FLAGS, selected=2, span=(0, 4))


def maps():
    cells = np.arange(12.0).reshape(3, 4)
    counts = np.eye(3, 4, dtype=np.int64)
    matrix = Matrix("activation/l2_norm", ("a", "b", "c"), np.arange(4), cells, cells, counts, counts + 1)
    heat = NamedHeatmap("activation/l2_norm", heat_of(matrix, "raw"))
    return heat_stack([heat, heat], DARK, selected=("b", 2), span=(0, 3))


@pytest.mark.parametrize("figure", [held, band, curve, maps])
def test_plotly_itself_finds_nothing_wrong(figure):
    made = figure()
    checked = json.loads(go.Figure(made.to_plotly_json()).to_json())
    assert checked["data"] == json.loads(made.to_json())["data"]


def test_what_is_wrong_is_left_to_that_check():
    wrong = drawing([{"type": "scatter", "mode": "no such mode"}], LIGHT)
    with pytest.raises(ValueError, match="no such mode"):
        go.Figure(wrong.to_plotly_json())


def test_figures_of_one_palette_share_no_template():
    one, other = drawing([], LIGHT), drawing([], LIGHT)
    one.layout.template.layout.font.size = 99
    assert other.layout.template.layout.font.size == 12
    assert drawing([], LIGHT).layout.template.layout.font.size == 12


def test_numbers_are_sent_packed_and_words_as_they_are():
    assert packed((1, 2)).tolist() == [1, 2]
    np.testing.assert_array_equal(packed((1.5, None)), [1.5, np.nan])
    assert packed(("2026-01-01", "2026-01-02")) == ["2026-01-01", "2026-01-02"]
    assert packed(()).size == 0


@pytest.mark.parametrize("make", [held, band, curve, maps], ids=lambda make: make.__name__)
def test_what_is_sent_is_what_plotly_would_send(make):
    figure = make()
    assert json.loads(figure.to_json()) == json.loads(go.Figure(figure).to_json())


def test_a_figure_is_not_changed_by_being_sent():
    figure = drawing([{"type": "scatter", "y": np.arange(3.0), "marker": {"color": np.arange(3)}}], LIGHT)
    first = figure.to_json()
    figure.to_dict()["layout"]["title"] = "another"
    assert isinstance(figure.data[0].y, np.ndarray)
    assert figure.to_json() == first
