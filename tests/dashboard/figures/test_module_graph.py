"""The model painted by its findings or by a metric."""

import math

import pytest
from mindscope.dashboard.pages.graph.module_graph_figure import (
    color_by_findings,
    color_by_values,
    flow_figure,
    flow_of,
    tree_figure,
)
from mindscope.dashboard.theme import DARK, LIGHT
from mindscope.storage import ModuleInfo

from tests.dashboard.recorded import BAD_SITE, BAD_STEP, findings

MODULES = (
    ModuleInfo("embed", "Embedding", 0),
    ModuleInfo(BAD_SITE, "ReLU", 1, ("embed",)),
    ModuleInfo("head", "Dense", 2, (BAD_SITE, "embed")),
    ModuleInfo("", "Model", 3, is_leaf=False),
)


def boxes(figure):
    return figure.data[1]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_a_finding_colours_its_module_from_its_step_on(palette):
    flow = flow_of(MODULES)
    at = [box.site for box in flow.boxes].index(BAD_SITE)
    before = boxes(flow_figure(flow, color_by_findings(findings(), BAD_STEP - 1, palette), palette))
    after = boxes(flow_figure(flow, color_by_findings(findings(), BAD_STEP, palette), palette))
    assert before.marker.color[at] == palette.grid
    assert (after.marker.color[at], after.marker.symbol[at]) == (palette.error, "diamond")
    assert "Non-finite activation since step 180" in after.hovertext[at]


def test_a_closed_box_shows_the_finding_inside():
    inner = tuple(ModuleInfo(f"decoder.{at}.mlp.act", "ReLU", at) for at in range(60))
    flow = flow_of((*inner, *(ModuleInfo(f"decoder.{at}", "Block", at, is_leaf=False) for at in range(60))))
    figure = flow_figure(flow, color_by_findings(findings(), BAD_STEP, LIGHT), LIGHT)
    at = [box.site for box in flow.boxes].index("decoder.2")
    assert boxes(figure).marker.color[at] == LIGHT.error
    assert BAD_SITE in boxes(figure).hovertext[at]


def test_values_run_over_the_scale_and_nan_has_a_colour_of_its_own():
    paint = color_by_values({"embed": 1.0, BAD_SITE: math.nan, "head": 3.0}, LIGHT, is_deviation=False, unit="x")
    assert paint.colors["embed"] == "rgb(241, 245, 251)"
    assert paint.colors["head"] == "rgb(18, 58, 112)"
    assert (paint.colors[BAD_SITE], paint.symbols[BAD_SITE]) == (LIGHT.non_finite, "x")


def test_deviations_beyond_the_scale_keep_its_ends_and_their_number():
    paint = color_by_values({"embed": -40.0, "head": 0.0}, DARK, is_deviation=True, unit="σ")
    assert paint.colors["embed"] == "rgb(143, 203, 255)"
    assert paint.texts["embed"] == "-40 σ"


def test_edges_begin_and_end_at_their_boxes():
    flow = flow_of(MODULES)
    figure = flow_figure(flow, color_by_findings((), 0, LIGHT), LIGHT)
    x, y = figure.data[0].x, figure.data[0].y
    ends = [(x[at], y[at]) for at in range(len(x)) if x[at] is not None and (at == 0 or x[at - 1] is None)]
    assert ends == [(flow.boxes[a].position, flow.boxes[a].layer) for a, _ in flow.edges]


def test_the_tree_holds_every_module_in_its_own_and_opens_at_the_chosen_one():
    figure = tree_figure(MODULES, color_by_findings(findings(), BAD_STEP, LIGHT), LIGHT, selected="")
    (icicle,) = figure.data
    assert dict(zip(icicle.ids, icicle.parents, strict=True)) == {
        "embed": "(model)",
        BAD_SITE: "(model)",
        "head": "(model)",
        "(model)": "",
    }
    assert icicle.level == "(model)"
    assert icicle.marker.colors[1] == LIGHT.error
