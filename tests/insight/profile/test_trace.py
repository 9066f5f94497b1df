"""The timeline follows the documented form of Chrome's trace format."""

import json
from numbers import Real

import pytest
from mindscope.insight.profile import chrome_trace
from mindscope.storage import Event, Finding, StepRecord, open_store

from .looked import LOOKED
from .test_profile import record, stored

#: What an event of each kind must have, by the format's description.
FIELDS = {
    "X": {"ph", "pid", "tid", "name", "ts", "dur", "args"},
    "C": {"ph", "pid", "tid", "name", "ts", "args"},
    "i": {"ph", "pid", "tid", "name", "ts", "args", "s"},
    "M": {"ph", "pid", "tid", "name", "ts", "args"},
}


def check(document):
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert set(document) >= {"traceEvents"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in document["traceEvents"]:
        assert set(event) == FIELDS[event["ph"]]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0.0
        if event["ph"] == "X":
            assert event["dur"] >= 0.0
        if event["ph"] == "C":
            assert all(isinstance(value, Real) for value in event["args"].values())
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
        if event["ph"] == "i":
            assert event["s"] in "gpt"
    named = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["ph"] == "X"} <= named


def trace(**options):
    looked = [
        record(step, memory=1e6, events=(Event("operators", step, data={**LOOKED, "step": step}),) if step == 3 else ())
        for step in range(30)
    ]
    store, run = stored(looked, map(record, range(10)))
    finding = Finding("loss-spike", "loss_spike", "warning", 12, 12, "", "scalar/loss", {}, "jumps", "look")
    store.write_findings(run.id, [finding])
    return chrome_trace(store, run, **options)


def test_the_whole_run_is_drawn_in_the_documented_form():
    document = trace()
    check(document)
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert sum(span["name"].startswith("step ") for span in spans) == 40
    assert {span["name"] for span in spans if span["tid"] == 2} == {"data", "forward", "backward", "optimizer"}
    assert {span["name"] for span in spans if span["tid"] == 10} == {"matmul", "exp"}
    assert [event["name"] for event in document["traceEvents"] if event["ph"] == "i"] == ["loss-spike"]


def test_phases_follow_each_other_inside_of_their_step():
    spans = [event for event in trace()["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
    step = next(span for span in spans if span["name"] == "step 9")
    phases = [span for span in spans if span["tid"] == 2 and span["args"]["step"] == 9]
    at = step["ts"]
    for phase in phases:
        assert phase["ts"] == pytest.approx(at)
        at += phase["dur"]
    assert at <= step["ts"] + step["dur"] + 1.0


def test_a_range_of_steps_draws_these_alone():
    document = trace(first=3, last=5)
    check(document)
    names = {event["name"] for event in document["traceEvents"] if event["ph"] == "X" and event["tid"] == 1}
    assert names == {"step 3", "step 4", "step 5"}


def test_values_that_json_lacks_are_left_out():
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write([StepRecord(0, 10.0, scalars={"loss": float("nan"), "step_seconds": 1.0})])
        writer.close()
        check(chrome_trace(store, store.find_run("run")))
