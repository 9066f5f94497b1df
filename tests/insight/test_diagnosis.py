"""Live and offline diagnosis over real stores: the same findings bit for bit, and verdicts that claim only what was
seen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mindscope.insight import RULES, Diagnosis, LiveDiagnosis, Recording, diagnose
from mindscope.insight.diagnosis import concluded
from mindscope.insight.recording import chain
from mindscope.insight.verdict import RunFacts
from mindscope.storage import Block, Finding, Layout, QueueWriter, StepRecord, open_store

MODEL = chain("one:Dense", "relu:ReLU", "two:Dense", "three:Dense", "four:Dense")
EXAMPLES = [pytest.param(item, id=f"{name}-{at}") for name, r in RULES.items() for at, item in enumerate(r.fires_on)]


def record_run(store, structure, records, config=None):
    live = LiveDiagnosis()
    writer = QueueWriter(store.begin_run("run", config=config or {}), listeners=(live,))
    writer.put_structure(structure)
    for record in records:
        writer.put(record)
    writer.close("finished")
    return live


@pytest.mark.parametrize("recording", EXAMPLES)
def test_every_example_is_diagnosed_alike_live_and_offline(recording):
    with open_store("memory:") as store:
        live = record_run(store, recording.structure, recording.records(), dict(recording.config))
        offline = diagnose(store, "latest")
        assert live.findings
        assert repr(offline.findings) == repr(live.findings)
        assert repr(offline) == repr(replace(live.diagnosis(), state="finished"))
        assert repr(store.findings(offline.run)) == repr(live.findings)


@pytest.mark.parametrize("moment", ["memory", "folder"])
def test_what_a_changed_structure_brings_is_found_since_its_change_live_and_offline(tmp_path, moment):
    late = ("one:Dense", "relu:ReLU", "two:Dense", "three:Dense", "four:Dense", "late:Dense")
    changed = chain(*late, not_stepped=["late.weight"])
    series = {"one activation/zeros": (*(1.0,) * 10, *(64.0,) * 10), "late.weight gradient/l2_norm": 1.0}
    recording = Recording(series, MODEL)
    with open_store("memory:" if moment == "memory" else tmp_path) as store:
        live = LiveDiagnosis()
        writer = QueueWriter(store.begin_run("run"), listeners=(live,))
        for record in recording.records():
            if record.step in (0, 7):
                writer.put_structure(changed if record.step else MODEL)
            writer.put(record)
        writer.close()
        offline = diagnose(store, "run")
        (missing,) = [finding for finding in offline.findings if finding.cause == "parameter_not_in_optimizer"]
        assert (missing.site, missing.first_step) == ("late", 7)
        assert repr(offline) == repr(replace(live.diagnosis(), state="finished"))


wild = st.one_of(st.floats(0, 1e3), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1e30, -1.0]))
SITES = ("one.weight", "two.weight", "three.weight", "four.weight")
STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")


@st.composite
def histories(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1.0, 1e-8, 1e12]))
    records = []
    for step in range(draw(st.integers(1, 45))):
        blocks = []
        for subject in ("gradient", "weight", "update"):
            names = (*STATISTICS, "ratio_to_weight") if subject == "update" else STATISTICS
            dtypes = tuple("uint64" if name in STATISTICS[5:] else "float32" for name in names)
            values = np.exp(random.normal(0, 4, (len(SITES), len(names)))) * scale
            values[:, 5:10] = random.integers(0, 3, (len(SITES), 5)) * (random.random((len(SITES), 5)) < 0.05)
            values[:, 9] = 64
            present = random.random(len(SITES)) < 0.9
            blocks.append(Block(Layout(subject, SITES, names, dtypes), values, present))
        scalars = {"loss": draw(wild), "learning_rate": float(np.exp(random.normal()))}
        records.append(
            StepRecord(step, float(step), skipped=bool(random.random() < 0.05), blocks=tuple(blocks), scalars=scalars)
        )
    return records


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_any_history_is_diagnosed_alike_live_and_offline(tmp_path_factory, records):
    for url in ("memory:", str(tmp_path_factory.mktemp("store"))):
        with open_store(url) as store:
            live = record_run(store, MODEL, records)
            offline = diagnose(store, "latest")
            assert repr(offline) == repr(replace(live.diagnosis(), state="finished"))
            assert "monitor_fault" not in {item.cause for item in offline.findings}


def test_too_little_is_undetermined_and_says_why():
    with open_store("memory:") as store:
        record_run(store, MODEL, Recording({"scalar/loss": (2.0, 1.9, 1.8)}, MODEL).records())
        found = diagnose(store, "run")
    assert found.verdict == "undetermined"
    assert "non-finite-gradient" in found.rules_not_run
    assert found.reasons["non-finite-gradient"] == "gradient was never recorded"


def test_a_finding_makes_a_run_unhealthy_however_little_was_recorded():
    with open_store("memory:") as store:
        record_run(store, MODEL, Recording({"scalar/loss": (2.0, float("nan"))}, MODEL).records())
        assert diagnose(store, "run").verdict == "unhealthy"


@pytest.mark.parametrize("state", ["failed", "finished", "running"])
def test_a_run_that_failed_is_never_healthy_and_says_how_it_ended(state, monkeypatch):
    monkeypatch.setattr("mindscope.insight.verdict.RULES", {})  # no rule is missing: only the end decides
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write(list(Recording({"scalar/loss": (2.0, 1.9, 1.8)}, MODEL).records()))
        if state != "running":
            writer.close(state, "ValueError: boom" if state == "failed" else "")
        found = diagnose(store, "run")
    assert found.verdict == ("undetermined" if state == "failed" else "healthy")
    assert (found.state, found.last_step) == (state, 2)
    assert ("the run failed at step 2: ValueError: boom" in found.to_text()) == (state == "failed")


def test_findings_are_written_when_asked_for():
    with open_store("memory:") as store:
        writer = store.begin_run("old")
        writer.write(list(Recording({"scalar/loss": (2.0, float("nan"))}).records()))
        writer.close()
        assert diagnose(store, "old").findings
        assert store.findings(store.find_run("old").id) == ()
        found = diagnose(store, "old", write=True)
        assert repr(store.findings(found.run)) == repr(found.findings)


def test_a_changed_structure_keeps_the_histories_and_says_nothing_twice():
    live = LiveDiagnosis()
    with open_store("memory:") as store:
        run = store.begin_run("run").run
    recording = Recording({"relu activation/zeros": (64,) * 12, "relu activation/min": 0}, MODEL)
    frozen = chain("one:Dense", "relu:ReLU", "two:Dense", "three:Dense", frozen=["two.weight"])
    for record in recording.records():
        live.begin(run, frozen)
        live.observe(record)
    assert [item.cause for item in live.findings] == ["frozen_parameter", "dead_units"]
    assert list(live.end()) == []


@pytest.mark.parametrize(("cause", "verdict"), [("watchpoint", "healthy"), ("dead_units", "unhealthy")])
def test_what_a_person_wanted_to_know_is_no_ill_health(cause, verdict):
    found = Finding("watchpoint/x > 1", cause, "warning", 3, 3, "", "scalar/x", {"value": 2.0}, "", "")
    facts = RunFacts("finished", seen=dict.fromkeys(("scalar/loss", "update", "gradient"), 40))
    assert concluded(Diagnosis("run", "undetermined"), [found], {}, None, facts).verdict == verdict
