"""Bars of importance and the map of correlations."""

import numpy as np
from mindscope.dashboard.pages.lineage.lineage_figures import correlation_figure, importance_figure
from mindscope.dashboard.queries.provenance_queries import Correlations
from mindscope.dashboard.theme import LIGHT
from mindscope.insight.lineage import Importance


def test_what_may_be_chance_is_hatched_and_grey():
    found = (Importance("tag.lr", 0.9, -0.8, 0.002, 12), Importance("tag.seed", 0.1, float("nan"), 0.4, 12))
    (bars,) = importance_figure(found, LIGHT).data
    assert list(bars.x) == [0.9, 0.1]
    assert list(bars.marker.pattern.shape) == ["", "/"]
    assert list(bars.marker.color) == [LIGHT.lines[0], LIGHT.muted]
    assert bars.text[0] == "p 0.002, rank correlation -0.80, 12 runs"
    assert bars.text[1] == "p 0.400, 12 runs"


def test_a_correlation_that_is_not_known_is_an_empty_cell():
    found = Correlations(np.array([[-1.0], [np.nan]]), np.array([[12], [3]]))
    (cells,) = correlation_figure(["lr", "seed"], ["loss"], found, LIGHT).data
    assert [list(row) for row in cells.text] == [["-1.00  n 12"], [""]]
    assert "%{customdata} runs" in cells.hovertemplate
    assert (cells.zmin, cells.zmax) == (-1, 1)
