"""A finding that begins at a change of the model's modules, or soon behind, names it where it may matter."""

import json
from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording, diagnose
from mindscope.insight.engine import Engine
from mindscope.insight.finding_onset import Changes, change_at
from mindscope.insight.recording import chain
from mindscope.storage import Event, Finding, StepRecord, open_store

MODEL = chain("one:Dense", "two:Dense")
CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))


def finding(cause, step):
    return Finding(cause.replace("_", "-"), cause, "error", step, step, "", "", {}, "", "")


def changed(step, *sites, count=None):
    return Event("modules_changed", step, data={"sites": [*sites], "count": count or len(sites)})


def changes(*events):
    known = Changes()
    for event in events:
        known.learn(StepRecord(event.step, 0.0, events=(event,)))
    return known


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (39, ""),
        (40, "head at step 40, in this very step"),
        (41, "head at step 40, 1 step before"),
        (60, "head at step 40, 20 steps before"),
        (61, ""),
    ],
)
def test_what_begins_at_a_change_or_soon_behind_names_it(first, words):
    assert changes(changed(40, "head")).of(finding("exploding_gradient", first)) == words


def test_a_stored_finding_names_the_change_as_it_did_when_it_was_made():
    events = [changed(step, "head") for step in (40, 200, 201, 202, 203, 204)]
    found = finding("exploding_gradient", 41)
    assert change_at(found, events) == "head at step 40, 1 step before"
    assert change_at(replace(found, step=500), events) == ""  # of later ones only the newest five are known
    assert change_at(finding("straggler", 41), events) == ""


def test_some_of_the_modules_are_named_and_the_others_counted():
    change = changes(changed(40, "a", "b", "c", "d", count=70)).of(finding("dead_units", 42))
    assert change == "a, b, c and 67 more at step 40, 2 steps before"


def test_a_model_that_always_changes_or_changes_before_it_was_trained_names_nothing():
    often = changes(*(changed(step, "expert") for step in range(10, 90, 15)))
    assert often.of(finding("exploding_gradient", 86)) == ""
    assert changes(*(changed(step, "block") for step in (10, 11, 40, 80))).of(finding("exploding_gradient", 81))
    assert changes(changed(0, "head")).of(finding("exploding_gradient", 1)) == ""


@pytest.mark.parametrize("cause", ["dataloader_bound", "repeated_batch", "straggler", "watchpoint"])
def test_what_lies_in_the_data_or_the_machine_is_no_matter_of_modules(cause):
    assert changes(changed(40, "head")).of(finding(cause, 41)) == ""


@pytest.fixture
def store():
    """A run whose first module makes NaN from step 20 on, two steps behind a change of the second."""
    course = {"one activation/nans": (*(0.0,) * 20, *(3.0,) * 20)}
    with open_store("memory:") as opened:
        writer = opened.begin_run("run")
        writer.write_structure(MODEL)
        writer.write(list(Recording(course, MODEL, events=(changed(18, "two"),)).records()))
        writer.close()
        yield opened


def test_the_account_of_a_root_cause_tells_of_the_change(store):
    found = diagnose(store, "run")
    assert [finding.cause for finding in found.root_causes] == ["non_finite_activation"]
    assert "   modules changed: two at step 18, 2 steps before" in found.to_text().splitlines()
    assert "Modules changed: two at step 18, 2 steps before." in found.to_markdown()
    assert json.loads(json.dumps(found.to_json()))["accounts"][0]["change"] == "two at step 18, 2 steps before"


@pytest.mark.parametrize(("at", "is_named"), [(38, True), (40, True), (10, False), (41, False)])
def test_a_loss_spike_names_the_change_and_sends_there_first(at, is_named):
    engine = Engine({"loss-spike": RULES["loss-spike"]})
    recording = Recording({"scalar/loss": (*CALM, 2.5, 3.0, 2.8, 2.9)}, MODEL, events=(changed(at, "two"),))
    for record in recording.records():
        engine.observe(record)
    (spike,) = engine.findings
    assert spike.first_step == 40
    assert (f"modules changed: two at step {at}, " in spike.explanation) is is_named
    assert ("look at the first values of the changed modules" in spike.advice) is is_named
    assert engine.changes == {}
