"""Contours of the loss, and cuts through it."""

import math

import numpy as np
import pytest
from mindscope.dashboard.pages.landscape.landscape_figures import (
    cuts_figure,
    landscape_figure,
    surface_heights,
)
from mindscope.dashboard.theme import DARK, LIGHT

from tests.dashboard.explained import BOWL, BROKEN, GRID, surface


def test_heights_are_logarithms_where_all_losses_are_positive_and_losses_where_not():
    assert surface_heights(surface(), "log").z == pytest.approx(np.log10(np.array(BOWL)))
    assert np.array_equal(surface_heights(surface(), "linear").z, np.array(BOWL))
    broken = surface_heights(surface("random", BROKEN), "log")
    assert not broken.is_log
    assert np.isnan(broken.z[0, 0])


def test_the_colour_bar_speaks_of_losses_and_not_of_their_logarithms():
    (low, smallest), *_, (high, largest) = surface_heights(surface(), "log").ticks
    assert (10**low, 10**high) == pytest.approx((0.5, np.max(BOWL)))
    assert (float(smallest), float(largest)) == pytest.approx((0.5, np.max(BOWL)), rel=0.01)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_way_the_weights_and_what_is_not_finite_stand_on_the_contours(palette):
    figure = landscape_figure(surface(), surface_heights(surface(), "log"), palette)
    traces = {trace.name: trace for trace in figure.data if trace.name}
    assert list(traces["the training"].customdata) == [0, 50, 100]
    assert list(traces["the training"].x) == [-2.0, -1.0, 0.0]
    assert (traces["the weights"].x, traces["the weights"].y) == ((0.0,), (0.0,))
    assert "90% of the path" in figure.layout.xaxis.title.text
    random = surface("random", BROKEN)
    figure = landscape_figure(random, surface_heights(random, "linear"), palette)
    traces = {trace.name: trace for trace in figure.data if trace.name}
    assert (traces["not finite"].x, traces["not finite"].y, traces["not finite"].text) == ((-2.0,), (-2.0,), ("NaN",))
    assert "the training" not in traces
    assert figure.layout.xaxis.title.text == "first direction"


def test_cuts_go_through_the_weights_and_mark_what_is_not_finite():
    first, second = cuts_figure(surface(), LIGHT, is_log=True).data
    assert list(first.y) == [loss for loss in BOWL[2]]
    assert list(second.y) == [row[2] for row in BOWL]
    losses = tuple(tuple(math.inf if x == -2.0 else 1.0 for x in GRID) for _ in GRID)
    traces = {trace.name: trace for trace in cuts_figure(surface("random", losses), LIGHT, is_log=False).data}
    assert list(traces["first direction"].y) == [None, 1.0, 1.0, 1.0, 1.0]
    assert list(traces["first direction, not finite"].x) == [-2.0]
    assert "second direction, not finite" not in traces


def test_a_surface_that_is_nowhere_finite_is_drawn_as_crosses():
    nothing = surface("random", ((math.nan,) * 5,) * 5)
    relief = surface_heights(nothing, "log")
    assert (relief.ticks, len(relief.broken), relief.is_log) == ((), 25, False)
    assert landscape_figure(nothing, relief, LIGHT).data
