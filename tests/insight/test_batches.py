"""A finding of one moment names the batch that it began with."""

import math

import pytest
from mindscope.insight import Recording, diagnose
from mindscope.insight.finding_onset import Batches
from mindscope.insight.recording import chain
from mindscope.storage import Finding, StepRecord, open_store

STEPS = 40


def finding(cause, step):
    return Finding(cause.replace("_", "-"), cause, "error", step, step, "", "", {}, "", "")


@pytest.fixture
def store():
    """A run whose first module makes NaN from step 20 on, and whose batches are known by number and content."""
    course = {
        "one activation/nans": (*(0.0,) * 20, *(3.0,) * 20),
        "scalar/batch/id": tuple(float(100 + step) for step in range(STEPS)),
        "scalar/batch/checksum": tuple(float(0xAB00 + step) for step in range(STEPS)),
    }
    with open_store("memory:") as opened:
        writer = opened.begin_run("run")
        model = chain("one:Dense", "two:Dense")
        writer.write_structure(model)
        writer.write(list(Recording(course, model).records()))
        writer.close()
        yield opened


def test_the_batch_of_the_first_bad_step_is_named_by_number_and_checksum(store):
    found = diagnose(store, "run")
    assert [finding.cause for finding in found.root_causes] == ["non_finite_activation"]
    assert found.accounts()[0].batch == "number 120, checksum ab14"
    assert "   the batch: number 120, checksum ab14" in found.to_text().splitlines()


def test_for_what_lasts_no_batch_is_named_and_where_none_was_recorded_neither():
    batches = Batches()
    for step in range(STEPS):
        for micro_step in range(2):
            number = float(100 + 2 * step + micro_step)
            batches.learn(StepRecord(step, 0.0, micro_step, scalars={"batch/id": number, "batch/checksum": math.nan}))
    assert batches.of(finding("dead_units", 20)) == ""
    assert batches.of(finding("bad_batch", STEPS + 5)) == ""
    assert batches.of(finding("bad_batch", 7)) == "number 114 115"


def test_the_batches_of_the_newest_steps_are_remembered():
    batches = Batches()
    for step in range(1000):
        batches.learn(StepRecord(step, 0.0, scalars={"batch/checksum": 255.0}))
    assert batches.of(finding("loss_spike", 0)) == ""
    assert batches.of(finding("loss_spike", 990)) == "checksum ff"
