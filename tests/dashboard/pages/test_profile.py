"""The page of the profile: what it says of a run that is known, for all steps and for some."""

import json

import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.pages.profile.profile_tables import duration, size
from mindscope.storage import StepRecord, open_store

from tests.dashboard.calling import call
from tests.dashboard.profiled import LONG_STEP, PEAK_STEP, write_profiled


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        write_profiled(store)
        writer = store.begin_run("bare")
        writer.write([StepRecord(0, 0.0, scalars={"loss": 1.0})])
        yield store


@pytest.fixture(scope="module")
def app(store):
    return create_app(store)


def asked(app, store, output, run="profiled", **said):
    given = {"profile-span": said.get("span", ""), "profile-rank": said.get("rank"), "profile-version": "x"}
    answer = call(app, output, given, {"profile-run": store.find_run(run).id, "scheme": "dark"})
    assert answer.status_code == 200
    return json.dumps(answer.get_json(), ensure_ascii=False)


def test_the_page_says_what_a_step_is_made_of_who_is_slow_and_what_to_do(app, store):
    said = asked(app, store, "profile-cards.children")
    for words in (
        "100 ms",
        "Data",
        "50 ms, 50% of the step",
        "1.0%",
        "2.0 GB",
        f"step {PEAK_STEP}",
        f"step={LONG_STEP}",
    ):
        assert words in said
    for words in ("passes before its forward", "num_workers", "Rank 1 works 105 ms", "all_reduce/world", "4.1 kB"):
        assert words in said
    assert '"name": "longest step"' in said


def test_a_stretch_of_steps_and_a_rank_can_be_chosen(app, store):
    said = asked(app, store, "profile-cards.children", span="40-59", rank="1")
    assert "110 ms" in said
    assert f"step={LONG_STEP}" not in said
    assert "of which monitor" in said


@pytest.mark.parametrize(
    ("choice", "told"),
    [({"span": "x-y"}, "is not a range of steps"), ({"rank": "7"}, "has no rank 7; rank 0 is shown")],
)
def test_a_choice_that_cannot_be_followed_is_told(app, store, choice, told):
    assert told in asked(app, store, "profile-cards.children", **choice)


def test_operators_and_memory_are_those_that_were_recorded(app, store):
    rows = json.loads(asked(app, store, "profile-operators.rowData"))["response"]["profile-operators"]["rowData"]
    assert [(row["name"], round(row["share"], 1)) for row in rows] == [("matmul", 66.7), ("exp", 33.3)]
    said = asked(app, store, "profile-memory.figure")
    assert "activations of head" in said
    assert "Inside step 3" in said


def test_what_was_not_recorded_is_told_with_what_would_record_it(app, store):
    said = asked(app, store, "profile-cards.children", run="bare")
    assert "No step was timed here" in said
    assert "Not recorded: " in said
    assert "subjects: {operator: {first: 3}}" in asked(app, store, "profile-operators.rowData", run="bare")
    assert "No memory recorded here" in asked(app, store, "profile-memory.figure", run="bare")


def test_the_timeline_of_a_stretch_can_be_fetched(app, store):
    client = app.server.test_client()
    run = store.find_run("profiled").id
    answer = client.get(f"/trace?run={run}&steps=30-34")
    assert answer.headers["Content-Disposition"].endswith(f'{run}.trace.json"')
    steps = {event["name"] for event in answer.get_json()["traceEvents"] if event["name"].startswith("step ")}
    assert steps == {f"step {step}" for step in range(30, 35)}
    assert client.get(f"/trace?run={run}").status_code == 200


@pytest.mark.parametrize(
    ("query", "status"), [("run=nobody", 404), ("run=latest&steps=x", 400), ("run=latest&steps=0-99999999", 400)]
)
def test_a_timeline_that_cannot_be_made_is_refused_in_words(app, query, status):
    answer = app.server.test_client().get(f"/trace?{query}")
    assert answer.status_code == status
    assert "Traceback" not in answer.get_data(as_text=True)


def test_seconds_and_bytes_are_short():
    assert [duration(s) for s in (0.0, 2.0, 0.25, 1e-3, 4.2e-5, float("nan"))] == [
        "0 s",
        "2 s",
        "250 ms",
        "1 ms",
        "42 µs",
        "–",
    ]
    assert [size(b) for b in (999.0, 4096.0, float("nan"))] == ["999 bytes", "4.1 kB", "–"]
