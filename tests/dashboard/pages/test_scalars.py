"""The wall of scalars: groups, runs over each other, smoothing, and what stays while a run is written."""

import json

import numpy as np
import pytest
from mindscope.dashboard.address import parse
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.pages.scalars.overlaid_runs import MOST_RUNS, overlay_address, runs_shown
from mindscope.dashboard.pages.scalars.scalar_charts import first_groups, groups_of, line_style, scalar_chart
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import StepRecord, open_store

from ..calling import call

NAMES = ["train/loss", "loss", "val/loss", "val/accuracy", "accuracy"]


@pytest.fixture(scope="module")
def store():
    """Forty runs; one has a NaN, another a single step, and only the newest has `lr`, which never changes."""
    with open_store("memory:") as store:
        for at in range(40):
            values = [2.0, np.nan, 1.0, 0.5] if at == 3 else [2.0] if at == 4 else [2.0, 1.5, 1.0, 0.5]
            more = {"lr": 1e-3} if at == 39 else {}
            writer = store.begin_run(f"run-{at:02}")
            records = [
                StepRecord(step, 0.0, scalars={"val/loss": loss + at, **more}) for step, loss in enumerate(values)
            ]
            writer.write(records)
            writer.close()
        yield store


@pytest.fixture(scope="module")
def reader(store):
    return Reader(store)


def test_scalars_are_grouped_by_what_stands_before_the_slash():
    groups = groups_of(NAMES)
    assert groups == {
        "(no prefix)": ["accuracy", "loss"],
        "train": ["train/loss"],
        "val": ["val/accuracy", "val/loss"],
    }
    assert groups_of(NAMES, "VAL accur") == {"(no prefix)": ["accuracy"], "val": ["val/accuracy", "val/loss"]}
    assert first_groups(groups, most=3) == ["(no prefix)", "train"]
    assert first_groups({"many": NAMES * 9}) == ["many"]


def test_all_forty_ticked_runs_are_drawn_and_none_like_another(reader):
    href = overlay_address([run.id for run in reader.runs()])
    found = runs_shown(reader, href.run, href.options["with"].split(","))
    assert [run.id for run in found] == [run.id for run in reader.runs()]
    lines = [trace for trace in scalar_chart(reader, found, "val/loss", LIGHT).data if trace.yaxis is None]
    assert len(lines) == 40
    assert len({line_style(at, LIGHT) for at in range(36)}) == 36
    assert len(href.search) < 420


def test_an_address_has_room_for_two_hundred_runs():
    ids = [f"20261121-053312-digits-{at:08x}" for at in range(500)]
    address = overlay_address(ids)
    assert len(address.options["with"].split(",")) == MOST_RUNS - 1
    parse("/scalars", address.search)


def test_what_was_logged_stays_visible_behind_the_smoothed_line(reader):
    run = reader.find("run-00")
    behind, front = scalar_chart(reader, [run], "val/loss", LIGHT, smoothing=0.5).data
    assert list(behind.y) == [2.0, 1.5, 1.0, 0.5]
    np.testing.assert_allclose(
        front.y, [2, (1 + 1.5) / 1.5, (0.5 + 0.75 + 1) / 1.75, (0.25 + 0.375 + 0.5 + 0.5) / 1.875]
    )
    assert behind.opacity < 0.5


def test_a_nan_is_a_mark_and_few_steps_are_points(reader):
    line, marks = scalar_chart(reader, [reader.find("run-03")], "val/loss", LIGHT, log=True).data
    assert np.isnan(line.y[1])
    assert (list(marks.x), list(marks.text)) == ([1.0], ["step 1: NaN"])
    (single,) = scalar_chart(reader, [reader.find("run-04")], "val/loss", LIGHT).data
    assert single.mode == "lines+markers"


def test_a_scalar_that_never_changes_has_an_axis_around_it(reader):
    figure = scalar_chart(reader, reader.runs()[:3], "lr", LIGHT)
    assert len(figure.data) == 1
    assert figure.layout.yaxis.range == pytest.approx((0.9e-3, 1.1e-3))


def test_the_page_restores_its_view_and_leaves_out_runs_that_are_gone(reader):
    status, _, content = page_at(reader, "/scalars", "?run=run-01&with=00000000&smooth=0.6&match=val&scale=log")
    assert status == 200
    said = json.dumps(content.to_plotly_json(), default=lambda part: part.to_plotly_json())
    assert '"value": 0.6' in said
    assert '"name": "val/loss"' in said
    assert page_at(reader, "/scalars", "?run=run-01&smooth=2")[0] == 400


def test_the_wall_is_laid_out_anew_only_when_there_are_other_charts(store):
    app = create_app(store)
    state = {"scalars-names": ["val/loss"], "scalars-open": ["val"], "scalars-run": store.find_run("run-01").id}
    asked = {"scalars-others": [], "scalars-match": "", "scalars-version": "2"}
    assert call(app, "scalars-open.children", asked, state).status_code == 204
    others = [store.find_run("run-39").id]
    answer = call(app, "scalars-open.children", {**asked, "scalars-others": others}, state).get_json()["response"]
    assert answer["scalars-names"]["data"] == ["lr", "val/loss"]
    assert answer["scalars-open"]["value"] == ["(no prefix)", "val"]
