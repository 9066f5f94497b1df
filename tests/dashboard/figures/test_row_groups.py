"""The rows of a deep model in groups that open."""

import numpy as np
from mindscope.dashboard.figures.heatmap_figure import NamedHeatmap, heat_of, heat_stack
from mindscope.dashboard.pages.layers.layer_figures import matching_rows
from mindscope.dashboard.pages.layers.row_groups import MOST_ROWS, folded, groups_of
from mindscope.dashboard.theme import LIGHT

from ...matrices import matrix_of
from ..recorded import module_sites

DEEP = module_sites(46)


def test_a_deep_model_has_a_row_for_each_block_and_a_small_one_for_each_site():
    groups = groups_of(DEEP)
    assert len(DEEP) > 400
    assert len(groups) <= MOST_ROWS
    assert [group.name for group in groups[:3]] == ["embed", "decoder.0", "decoder.1"]
    assert [row for group in groups for row in group.rows] == list(range(len(DEEP)))
    assert [len(group.rows) for group in groups_of(module_sites(4))] == [1] * len(module_sites(4))


def test_sites_that_share_no_beginning_stay_alone():
    names = [f"m{at}" for at in range(100)]
    assert len(groups_of(names)) == 100


def _heat():
    values = np.ones((4, 8))
    values[2, 7] = 1e-3
    broken = np.zeros((4, 8), np.int64)
    broken[1, 6] = 2
    sites = ("stem", "block.0", "block.1", "block.2")
    matrix = matrix_of(values, non_finite=broken)
    return heat_of(
        type(matrix)(matrix.metric, sites, matrix.steps, matrix.low, matrix.high, broken, matrix.present), "deviation"
    )


def test_a_closed_group_shows_the_most_unusual_of_its_rows_and_an_open_one_each():
    heat = _heat()
    closed, labels = folded(heat, groups_of(heat.sites, most=2), ())
    assert closed.sites == ("stem", "▸ block · 3")
    assert labels == {"▸ block · 3": "block"}
    assert closed.z[1, 7] == heat.z[2, 7] < -12
    assert (closed.low[1, 7], closed.high[1, 7], closed.non_finite[1, 6]) == (1e-3, 1.0, 2)
    opened, none = folded(heat, groups_of(heat.sites, most=2), ("block",))
    assert (opened.sites, none) == (heat.sites, {})
    np.testing.assert_array_equal(opened.z, heat.z)


def test_the_browser_is_told_which_rows_are_groups():
    heat = _heat()
    closed, labels = folded(heat, groups_of(heat.sites, most=2), ())
    trace = heat_stack([NamedHeatmap("activation/l2_norm", closed, labels)], LIGHT).data[0]
    assert trace.meta["groups"] == {"▸ block · 3": "block"}


def test_rows_are_found_by_a_word():
    heat = _heat()
    assert matching_rows(heat, "block") == [1, 2, 3]
    assert matching_rows(heat, "k.1 stem") == [0, 2]
    assert matching_rows(heat, "block.?") == [1, 2, 3]
