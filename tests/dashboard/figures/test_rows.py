"""Rows of a map: chosen by globs, ordered by how unusual they ever were."""

import numpy as np
import pytest
from mindscope.dashboard.figures.heatmap_figure import heat_of
from mindscope.dashboard.pages.layers.layer_figures import (
    matching_rows,
    most_unusual_first,
    scores,
    with_rows,
)

from ...matrices import matrix_of

CALM, SPIKE, BROKEN = 0, 1, 2
BAD = np.zeros((3, 12), dtype=np.int64)
BAD[BROKEN, 3] = 1
VALUES = np.ones((3, 12))
HEAT = heat_of(matrix_of(VALUES, non_finite=BAD), "raw")
DEVIATIONS = np.full((3, 12), np.nan)
DEVIATIONS[:, 5:] = 0.5
DEVIATIONS[SPIKE, 7] = -40.0


def test_what_was_not_finite_is_the_most_unusual_then_the_largest_deviation_either_way():
    assert scores(HEAT, DEVIATIONS).tolist() == [0.5, 40.0, np.inf]
    assert most_unusual_first([CALM, SPIKE, BROKEN], HEAT, DEVIATIONS) == [BROKEN, SPIKE, CALM]
    assert most_unusual_first([CALM, SPIKE], HEAT, DEVIATIONS) == [SPIKE, CALM]


def test_a_row_without_history_has_no_score():
    assert scores(HEAT, np.full((3, 12), np.nan))[CALM] == 0.0


@pytest.mark.parametrize(
    ("globs", "rows"),
    [("", [0, 1, 2]), ("layer.*", [0, 1, 2]), ("*.1 *.2", [1, 2]), ("*.0,nothing", [0]), ("1", [1]), ("none", [])],
)
def test_globs_choose_sites(globs, rows):
    assert matching_rows(HEAT, globs) == rows


def test_the_map_of_some_rows_keeps_their_order():
    some = with_rows(HEAT, [2, 0])
    assert some.sites == ("layer.2", "layer.0")
    assert some.non_finite.sum(axis=1).tolist() == [1, 0]
