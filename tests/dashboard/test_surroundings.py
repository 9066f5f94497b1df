"""Configuration, environment, events and scalars of a run, as tables and as files."""

import csv
import io
import json
import math
import zipfile

import pytest
from mindscope.dashboard.app import create_app
from mindscope.dashboard.pages.logs_page import columns_of, rows_of
from mindscope.dashboard.queries.environment_queries import archive, events, part_of, scalar_rows
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Event, StepRecord, open_store

HOST = {"node": "n1", "packages": {"numpy": "2.4"}, "git": {"commit": "abc", "is_dirty": True}, "script": "train.py"}
LOSSES = (1.5, math.nan, math.inf, 0.1 + 0.2)


@pytest.fixture(scope="module")
def told():
    with open_store("memory:") as store:
        writer = store.begin_run("told", config={"rules": {"loss-spike": {"limit": 3}}, "every": 1}, host=HOST)
        skipped = Event("step_skipped", 2, data={"loss_scale": 1024.0, "odd": math.nan})
        writer.write(
            [
                StepRecord(step, 10.0 + step, scalars={"loss": loss}, events=(skipped,) if step == 2 else ())
                for step, loss in enumerate(LOSSES)
            ]
        )
        writer.close("failed", "RuntimeError: out of memory")
        yield Reader(store), store.find_run("told"), store


def test_settings_are_told_by_their_whole_name(told):
    _, run, _ = told
    assert part_of(run, "configuration") == {"rules.loss-spike.limit": 3, "every": 1}
    assert part_of(run, "packages") == {"numpy": "2.4"}
    assert part_of(run, "git") == {"commit": "abc", "is_dirty": True}
    machine = part_of(run, "machine")
    assert machine["node"] == "n1"
    assert not any(name.startswith(("packages", "git")) for name in machine)


def test_scalars_tell_their_ends_and_what_is_not_finite(told):
    reader, run, _ = told
    (row,) = scalar_rows(reader, run)
    assert (row["name"], row["points"], row["not finite"]) == ("loss", 4, 2)
    assert (row["smallest"], row["largest"], row["last"]) == ("0.3", "1.5", "0.3")


def test_every_table_has_columns_for_all_that_its_rows_hold(told):
    reader, run, _ = told
    for part in ("scalars", "events", "configuration", "machine", "packages", "git"):
        rows = rows_of(reader, run, part)
        assert rows, part
        assert [column["field"] for column in columns_of(rows)] == list(rows[0])
        json.dumps(rows, allow_nan=False)
    assert rows_of(reader, run, "devices") == []
    assert columns_of([]) == []


def test_the_archive_holds_every_number_with_all_its_digits(told):
    reader, run, _ = told
    files = zipfile.ZipFile(io.BytesIO(archive(reader, run)))
    assert files.testzip() is None
    rows = list(csv.DictReader(io.StringIO(files.read("scalars.csv").decode())))
    back = [float(row["value"]) for row in rows]
    assert [repr(value) for value in back] == [repr(value) for value in LOSSES]
    assert [int(row["step"]) for row in rows] == [0, 1, 2, 3]
    assert json.loads(files.read("run.json"))["host"]["packages"] == {"numpy": "2.4"}
    (event,) = json.loads(files.read("events.json"))
    assert (event["kind"], event["data"]) == ("step_skipped", {"loss_scale": 1024.0, "odd": "NaN"})
    assert json.loads(files.read("findings.json")) == []


def test_the_archive_is_served_under_the_name_of_its_run_and_unknown_ones_are_told(told):
    _, run, store = told
    client = create_app(store).server.test_client()
    answer = client.get(f"/archive?run={run.id}")
    assert (answer.status_code, answer.mimetype) == (200, "application/zip")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{run.id}.zip"'
    unknown = client.get("/archive?run=tolt")
    assert unknown.status_code == 404
    assert "told" in unknown.get_data(as_text=True)


def test_events_of_all_ranks_stand_in_the_order_of_their_steps():
    with open_store("memory:") as store:
        first = store.begin_run("two", rank=0)
        second = store.begin_run("two", rank=1, run_id=first.run.id)
        first.write_events([Event("exception", 5), Event("collective", 1)])
        second.write_events([Event("collective", 3)])
        found = events(Reader(store), store.find_run("two"))
        assert [(rank, event.step) for rank, event in found] == [(0, 1), (1, 3), (0, 5)]
