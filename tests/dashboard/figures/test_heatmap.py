"""The heat map: two views, non-finite cells, the frame around what is selected."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.dashboard.figures.heatmap_figure import (
    NamedHeatmap,
    from_step,
    heat_height,
    heat_of,
    heat_stack,
    with_elements,
)
from mindscope.dashboard.theme import DARK, LIGHT

from ...matrices import matrix_of


def drawn(heat, palette=LIGHT):
    """The heat map alone on a figure."""
    return heat_stack([NamedHeatmap("activation/l2_norm", heat)], palette)


WIDE = np.array([[1e-3, 1.0, 1e3], [1e-2, 10.0, 1e2]])


def test_positive_values_of_many_magnitudes_are_coloured_by_decade():
    heat = heat_of(matrix_of(WIDE), "raw")
    np.testing.assert_allclose(heat.z, np.log10(WIDE), rtol=1e-6)
    assert heat.span == pytest.approx((-3, 3))
    assert "1e0" in dict(heat.ticks).values()
    assert not heat.diverging


def test_a_span_below_a_decade_still_has_readable_ticks():
    heat = heat_of(matrix_of(np.linspace(0.02, 1.4, 12).reshape(2, 6)), "raw")
    assert {"0.05", "0.1", "0.2", "0.5", "1"} <= {text for _, text in heat.ticks}


def test_signed_values_are_coloured_around_zero():
    heat = heat_of(matrix_of([[-2.0, 1.0, 0.5]]), "raw")
    assert heat.diverging
    assert heat.span == (-2.0, 2.0)


def test_counts_of_zero_alone_can_be_drawn():
    heat = heat_of(matrix_of(np.zeros((2, 3))), "raw")
    assert heat.span == (0.0, 1.0)


@pytest.mark.parametrize("view", ["raw", "deviation"])
def test_non_finite_cells_are_a_layer_of_their_own_in_a_colour_of_their_own(view):
    broken = np.zeros((2, 8), dtype=np.int64)
    broken[1, 6] = 3
    figure = drawn(heat_of(matrix_of(np.ones((2, 8)), non_finite=broken), view), DARK)
    layer = figure.data[1]
    assert np.isnan(layer.z).sum() == 15
    assert layer.z[1][6] == 3
    assert {color for _, color in layer.colorscale} == {DARK.non_finite}


def test_without_non_finite_values_there_is_one_layer():
    assert len(drawn(heat_of(matrix_of(WIDE), "raw"), LIGHT).data) == 1


def test_broken_elements_count_although_the_statistic_of_the_others_is_finite():
    matrix, counts = matrix_of(np.ones((2, 3))), matrix_of([[0, 0, 4.0], [0, np.nan, 0]])
    assert with_elements(matrix, [counts, counts]).non_finite.tolist() == [[0, 0, 8], [0, 0, 0]]


def test_counts_of_other_columns_are_not_mixed_in():
    assert with_elements(matrix_of(np.ones((2, 3))), [matrix_of(np.ones((2, 4)))]).non_finite.sum() == 0


def test_a_small_map_tells_the_range_of_each_cell_and_a_huge_one_stays_small():
    small = drawn(heat_of(matrix_of(np.ones((2, 4))), "raw"), LIGHT)
    assert np.shape(small.data[0].customdata) == (2, 4, 2)
    huge = drawn(heat_of(matrix_of(np.ones((1000, 150))), "raw"), LIGHT)
    assert huge.data[0].customdata is None
    assert len(huge.to_json()) < 2_000_000
    assert heat_height(1000) == 720


def test_columns_before_a_stretch_of_steps_are_history_and_not_drawn():
    heat = heat_of(matrix_of(np.arange(20.0).reshape(2, 10) + 1), "deviation")
    shown = from_step(heat, 7)
    assert shown.steps.tolist() == [7, 8, 9]
    np.testing.assert_array_equal(shown.z, heat.z[:, 7:])
    assert np.isfinite(shown.z).all()


def test_up_to_three_steps_are_points_in_the_order_of_the_rows():
    (points,) = drawn(heat_of(matrix_of(WIDE), "raw")).data
    assert (points.type, points.mode) == ("scatter", "markers")
    assert list(points.y) == ["layer.0"] * 3 + ["layer.1"] * 3
    np.testing.assert_allclose(points.marker.color, np.log10(WIDE).ravel(), rtol=1e-6)
    axis = drawn(heat_of(matrix_of(WIDE), "raw")).layout.xaxis
    assert (list(axis.tickvals), axis.range) == ([0, 1, 2], (-0.5, 2.5))


def test_too_few_columns_for_a_history_show_their_values_and_say_so():
    heat = heat_of(matrix_of(np.ones((2, 4))), "deviation")
    assert not heat.diverging
    assert heat.note == "values: deviations need 5 steps of history"


def test_what_is_blank_is_explained():
    assert heat_of(matrix_of(np.ones((2, 8))), "deviation").note == "blank: the first 5 columns are the history"
    holes = matrix_of(np.ones((2, 8)))
    holes = replace(holes, present=np.where(np.arange(8) == 6, 0, holes.present))
    assert heat_of(holes, "raw").note == "blank: nothing recorded at step 6"
    late = replace(holes, present=np.array([[1] * 8, [0] * 3 + [1] * 5]))
    assert heat_of(late, "raw").note == "blank: 1 of 2 rows were not recorded at every step"
    assert drawn(heat_of(late, "raw")).layout.annotations[0].text.count("blank: 1 of 2 rows") == 1
