"""Small pictures of layers side by side."""

import numpy as np
from mindscope.dashboard.figures.heatmap_figure import heat_of
from mindscope.dashboard.pages.layers.layer_figures import MOST, small_multiples
from mindscope.dashboard.theme import LIGHT

from ...matrices import matrix_of


def drawn(low, high=None, non_finite=None, **how):
    return small_multiples("gradient/l2_norm", heat_of(matrix_of(low, high, non_finite), "raw"), LIGHT, **how)


def test_every_layer_has_a_band_on_axes_of_its_own_and_carries_its_site():
    figure = drawn(np.ones((3, 5)), np.full((3, 5), 2.0))
    assert len(figure.data) == 6
    assert [trace.meta["site"] for trace in figure.data[::2]] == ["layer.0", "layer.1", "layer.2"]
    assert len({trace.yaxis for trace in figure.data}) == 3
    assert figure.data[1].fill == "tonexty"


def test_at_most_so_many_are_drawn():
    assert len(drawn(np.ones((MOST + 9, 3))).data) == 2 * MOST


def test_what_is_not_finite_is_a_mark_and_what_is_not_on_a_log_axis_a_gap():
    broken = np.array([[0, 0, 1]])
    figure = drawn([[1.0, 0.0, 3.0]], non_finite=broken, log=True)
    assert figure.data[0].y == (1.0, None, 3.0)
    assert figure.data[2].x == (2,)
    assert figure.data[2].marker.color == LIGHT.non_finite
    assert figure.layout.yaxis.type == "log"
