"""The page of one run as it is laid out."""

from contextvars import copy_context
from dataclasses import replace

import pytest
from dash import dcc
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.pages.live_run import live_run_page as page
from mindscope.dashboard.pages.live_run.live_run_panels import LiveRunIds
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.run_figures import run_curve_figure, run_heatmap_figure, steps_shown
from mindscope.dashboard.theme import DARK, LIGHT, SCHEME_SHOWN
from mindscope.storage import StepRecord, open_store

from ..recorded import Plan, findings, write_run


def _laid_out(reader, address, scheme):
    context = copy_context()
    context.run(SCHEME_SHOWN.set, scheme)
    content = context.run(page.layout, reader, address)
    return next(one for one in content._traverse() if isinstance(one, dcc.Graph) and one.id == LiveRunIds.curve)


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK), (None, LIGHT)])
def test_the_curve_is_there_with_the_page_in_its_colours(reader, bad_run, scheme, palette):
    figure = _laid_out(reader, PageAddress("run", bad_run.id), scheme).figure
    assert figure.data[0].name == "loss linear"
    assert len(figure.data[0].x) > 200
    assert figure.data[0].line.color == palette.lines[0]


def test_the_curve_is_the_one_that_the_address_names(reader, bad_run):
    address = PageAddress("run", bad_run.id, options={"scalar": "learning_rate", "scale": "log", "steps": "20-40"})
    figure = _laid_out(reader, address, "light").figure
    assert figure.layout.yaxis.type == "log"
    assert (figure.data[0].x[0], figure.data[0].x[-1]) == (20, 40)


@pytest.mark.parametrize("is_over", [True, False], ids=["over", "written"])
def test_only_a_run_that_goes_on_can_be_followed(is_over):
    with open_store("memory:") as store:
        writer = store.begin_run("one")
        if is_over:
            writer.close()
        layout = page.layout(Reader(store), PageAddress("run", writer.run.id))
        (follow,) = [one for one in layout._traverse() if getattr(one, "id", None) == LiveRunIds.follow]
        assert (follow.style == {"display": "none"}) == is_over
        writer.close()


def test_curve_and_maps_have_one_axis_of_steps(reader, bad_run, healthy_run):
    for run, ends in ((bad_run, (-0.5, 299.5)), (healthy_run, (-0.5, 150.5))):  # the healthy one is being written
        curve = run_curve_figure(reader, run.id, "loss", "linear", LIGHT)
        maps = run_heatmap_figure(reader, run.id, ["activation/l2_norm", "gradient/l2_norm"], "raw", LIGHT)
        assert curve.layout.xaxis.range == maps.layout.xaxis.range == ends


def test_the_axis_of_a_run_that_is_written_stays_for_many_steps_and_its_growth_is_news():
    with open_store("memory:") as store:
        writer = store.begin_run("live")
        reader, ends = Reader(store), []
        writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0})])
        seen = page.cursor_now(reader, reader.find(writer.run.id))
        for step in range(1, 25):
            writer.write([StepRecord(step, 0.0, scalars={"loss": 1.0})])
            update = page.poll(reader, reader.find(writer.run.id), "loss", seen, log=False)
            assert update.redraw == (update.cursor.end != seen.end)
            seen = update.cursor
            ends.append(seen.end)
        assert sorted(set(ends)) == [10, 15, 20, 30]
        writer.close()
        assert steps_shown(Reader(store), writer.run.id) == (0, 24)


def test_a_finding_of_the_whole_model_boxes_no_layer(reader):
    with open_store("memory:") as store:
        run = write_run(store, "spiky", Plan(steps=120, goes_bad=False), closes=False)
        spike = replace(findings()[-1], site="", severity="warning", first_step=90, step=90)
        store.write_findings(run.id, [spike])
        layout = page.layout(Reader(store), PageAddress("run", run.id))
        by_id = {one.id: one for one in layout._traverse() if isinstance(getattr(one, "id", None), str)}
        assert by_id[LiveRunIds.site].value is None
        assert by_id[LiveRunIds.step].value == 90
