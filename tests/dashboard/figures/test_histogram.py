"""The bars of a histogram."""

import numpy as np
from mindscope.dashboard.figures.histogram_figures import bars_of, histogram_figure
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import Histogram


def _bars(edges, counts):
    return bars_of(Histogram("head", "weight", np.array(edges, dtype=np.float64), np.array(counts)))


def test_bars_stand_between_their_edges():
    bars = _bars([0, 1, 3], [5, 7])
    assert bars.centers == (0.5, 2.0)
    assert bars.widths == (1.0, 2.0)
    assert bars.open == (False, False)


def test_open_bins_are_as_wide_as_their_neighbour_and_hatched():
    bars = _bars([-np.inf, 0, 1, np.inf], [1, 2, 3])
    assert bars.centers == (-0.5, 0.5, 1.5)
    assert bars.labels[0] == "-Inf to 0"
    figure = histogram_figure(bars, LIGHT)
    assert list(figure.data[0].marker.pattern.shape) == ["/", "", "/"]
    assert list(figure.data[0].y) == [1, 2, 3]


def test_one_bin_over_everything_can_be_drawn():
    assert _bars([-np.inf, np.inf], [9]).counts == (9,)


def test_bins_that_halve_towards_zero_are_drawn_equally_wide():
    edges = [-1, -0.01, 0, 0.01, 1]
    bars = _bars(edges, [4, 3, 2, 1])
    assert bars.centers == (0.5, 1.5, 2.5, 3.5)
    assert set(bars.widths) == {1.0}
    assert bars.labels[1] == "-0.01 to 0"
    axis = histogram_figure(bars, LIGHT).layout.xaxis
    assert (2.0, "0") in zip(axis.tickvals, axis.ticktext, strict=True)


def test_empty_bins_beside_each_other_become_one():
    bars = _bars([-4, -2, -1, -0.01, 0, 0.01, 1, 2, 4], [1, 0, 0, 0, 0, 0, 0, 9])
    assert bars.counts == (1, 0, 9)
    assert bars.labels == ("-4 to -2", "-2 to 2", "2 to 4")


def test_bins_of_one_width_stay_on_an_axis_of_values():
    assert _bars(np.linspace(0, 1, 81), [1] * 80).marks == ()
