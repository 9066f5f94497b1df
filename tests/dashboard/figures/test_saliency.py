"""Maps of where a model looks."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.dashboard.pages.landscape.landscape_figures import curves_figure, maps_figure, maps_height
from mindscope.dashboard.theme import DARK, LIGHT
from mindscope.insight.saliency import explain

from tests.dashboard.explained import PIXEL, gradient, score

X = np.random.default_rng(0).uniform(0.5, 1.0, (5, 5))
MARK = np.arange(25).reshape(5, 5) == PIXEL[0] * 5 + PIXEL[1]


@pytest.fixture(scope="module")
def found():
    return [
        explain(score, X, method="gradient", gradient=gradient, region=MARK),
        explain(score, X, method="occlusion"),
    ]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_input_and_every_map_are_drawn_with_zero_in_the_middle_of_the_colours(found, palette):
    figure = maps_figure(found, palette)
    picture, gradient_map, mark, occlusion_map = figure.data
    assert np.array_equal(picture.z, X.astype(np.float32))
    assert (gradient_map.zmin, gradient_map.zmax) == (-2.0, 2.0)
    assert occlusion_map.zmax == -occlusion_map.zmin > 0
    assert mark.type == "contour"
    assert [note.text for note in figure.layout.annotations] == ["Input", "Gradient", "Occlusion"]
    assert all(not trace.showscale for trace in figure.data)


def test_of_a_large_picture_every_patch_shows_its_largest_value():
    x = np.zeros((3, 300, 500))
    importance = np.zeros((300, 500))
    importance[123, 456] = -9.0
    large = replace(explain(lambda inputs: inputs.sum(axis=(1, 2)), np.ones((5, 5)), method="occlusion"), x=x)
    picture, field = maps_figure([replace(large, importance=importance)], LIGHT).data
    assert max(picture.z.shape) <= 112
    assert field.z.shape == picture.z.shape
    assert field.z.min() == -9.0
    assert field.z.max() == 0.0


def test_a_vector_is_one_row():
    vector = explain(lambda inputs: inputs[:, 0], np.ones(7), method="occlusion")
    assert [trace.z.shape for trace in maps_figure([vector], LIGHT).data] == [(1, 7), (1, 7)]


def test_a_row_holds_the_input_and_two_maps():
    assert maps_height(2) < maps_height(3) == maps_height(5)


def test_curves_of_both_kinds_are_those_of_the_explanation(found):
    deleted, inserted, *_ = curves_figure(found, LIGHT).data
    assert list(deleted.y) == list(found[0].deletion.scores)
    assert list(inserted.y) == list(found[0].insertion.scores)
    assert (deleted.xaxis, inserted.xaxis) == ("x", "x2")
    assert (deleted.showlegend, inserted.showlegend) == (True, False)
