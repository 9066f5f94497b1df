"""Several maps over one axis of steps."""

import numpy as np
import pytest
from mindscope.dashboard.figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from mindscope.dashboard.theme import LIGHT

from ...matrices import matrix_of


def maps(*rows):
    return [
        NamedHeatmap(f"metric/{index}", heat_of(matrix_of(np.ones((amount, 6)) * index), "raw"))
        for index, amount in enumerate(rows)
    ]


def test_all_maps_share_the_axis_of_steps_and_none_overlaps_another():
    figure = heat_stack(maps(3, 40, 1000), LIGHT)
    assert {trace.xaxis for trace in figure.data} <= {None, "x"}
    domains = [figure.layout[name].domain for name in ("yaxis", "yaxis2", "yaxis3")]
    edges = [edge for low, high in domains for edge in (high, low)]
    assert edges == sorted(edges, reverse=True)
    assert figure.layout.xaxis.anchor == "y3"
    assert figure.layout.height < 1000


def test_each_map_tells_the_browser_its_metric():
    assert [trace.meta["metric"] for trace in heat_stack(maps(2, 2), LIGHT).data] == ["metric/0", "metric/1"]


def test_a_stretch_of_steps_is_what_the_axis_shows():
    assert heat_stack(maps(2), LIGHT, span=(3, 9)).layout.xaxis.range == (3, 9)
    assert heat_stack(maps(2), LIGHT).layout.xaxis.range is None


@pytest.mark.parametrize(("site", "framed"), [("layer.1", ["y", "y2"]), ("layer.7", ["y2"]), ("unknown", [])])
def test_the_chosen_place_is_framed_in_each_map_that_has_it(site, framed):
    shapes = heat_stack(maps(2, 9), LIGHT, selected=(site, 4)).layout.shapes
    around = [shape for shape in shapes if shape.type == "rect"]
    assert [shape.yref for shape in around] == framed
    row = int(site[-1]) if framed else None
    assert all((shape.y0, shape.y1) == (row - 0.5, row + 0.5) for shape in around)
    assert {shape.x0 for shape in shapes if shape.type == "line"} == ({4} if framed else set())


def test_the_colour_of_what_is_not_finite_is_explained_where_it_is_drawn():
    with_nan = NamedHeatmap("metric/nan", heat_of(matrix_of(np.ones((2, 6)), non_finite=np.eye(2, 6)), "raw"))
    whole = maps(2)[0]
    first, second = (note.text for note in heat_stack([whole, with_nan], LIGHT).layout.annotations)
    assert first == "metric/0"
    assert LIGHT.non_finite in second
    assert second.endswith("NaN or infinite")
