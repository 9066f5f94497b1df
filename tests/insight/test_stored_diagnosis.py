"""The diagnosis from stored findings says what a replay of every record says."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from mindscope.insight import diagnose, render_json, stored_diagnosis, stored_verdict
from mindscope.storage import Event, Store, open_store

from ..dashboard.recorded import Plan, records, structure_of, write_run


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    "plan",
    [Plan(), Plan(steps=3, goes_bad=False), Plan(steps=60, goes_bad=False, spike_at=None)],
    ids=["bad", "short", "fine"],
)
def test_it_says_what_the_replay_says(store: Store, plan: Plan) -> None:
    writer = store.begin_run("run")
    writer.write_structure(structure_of(plan))
    writer.write(list(records(plan)))
    writer.close()
    replayed = diagnose(store, "run", write=True)
    assert render_json(stored_diagnosis(store, store.find_run("run"))) == render_json(replayed)


def test_what_ended_a_killed_run_is_told_although_nobody_could_store_it(store: Store) -> None:
    run = write_run(store, plan=Plan(steps=20, goes_bad=False))
    crashed = replace(store.find_run(run.id), state="crashed", error="Segmentation fault at train.py, line 7")
    found = stored_verdict(store, crashed)
    assert (found.verdict, found.root_causes[0].cause) == ("unhealthy", "process_killed")
    assert "Segmentation fault at train.py:7" in found.root_causes[0].explanation


def test_an_exception_that_no_record_carries_is_told(store: Store) -> None:
    writer = store.begin_run("run")
    writer.write_events([Event("exception", 0, data={"type": "KeyError", "message": "'x'"})])
    writer.close("failed", "KeyError: 'x'")
    found = stored_verdict(store, store.find_run("run"))
    assert [finding.cause for finding in found.root_causes] == ["program_error"]
    assert found.error == "KeyError: 'x'"


def test_what_a_person_has_muted_is_left_out_by_the_replay_too(store: Store) -> None:
    run = write_run(store)
    root = diagnose(store, run.id).root_causes[0]
    store.mute(run.id, root.rule, root.site)
    assert root.key not in {finding.key for finding in diagnose(store, run.id, write=True).findings}
    assert root.key not in {finding.key for finding in stored_diagnosis(store, store.find_run(run.id)).findings}
    store.mute(run.id, root.rule, root.site, muted=False)
    assert root.key in {finding.key for finding in store.findings(run.id)}  # what is muted is stored all the same
