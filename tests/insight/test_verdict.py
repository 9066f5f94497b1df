"""The verdict has its reasons: healthy is a claim, and what was not checked is said with the command that checks it."""

from dataclasses import replace

import pytest
from mindscope.insight import Recording, diagnose, judge, stored_facts
from mindscope.insight.diagnosis import LiveDiagnosis
from mindscope.insight.recording import chain
from mindscope.insight.verdict import RunFacts, is_question
from mindscope.storage import Event, Finding, open_store

MODEL = chain("one:Dense", "two:Dense")
CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
FALLING = tuple(2.3 * 0.95**step for step in range(60))
STEPPED = {
    f"{site}.weight {subject}/l2_norm": (1.0,) * 60 for site in ("one", "two") for subject in ("gradient", "update")
}


def check_event(outcome, *, counterexample=None):
    data = {"check": "fits-a-batch", "outcome": outcome, "claim": "the model fits one batch", "numbers": {}}
    return Event("check", 3, data=data | ({"counterexample": counterexample} if counterexample else {}))


def judged(series, *, events=(), state="finished"):
    """The verdict of a stored run: the same from its records and from its series."""
    with open_store("memory:") as store:
        writer = store.begin_run("run")
        writer.write_structure(MODEL)
        writer.write(list(Recording(series, MODEL, events).records()))
        if state != "running":
            writer.close(state, "ValueError: boom" if state == "failed" else "")
        found = diagnose(store, "run")
        assert judge(found.findings, stored_facts(store, found.run)) == found.judgement
        command = found.judgement.next_command
        assert " RUN " not in command
        return replace(found.judgement, next_command=command.replace(found.run, "ITS_NAME"))


def finding(cause, severity, *, confidence=0.9, words="it is so"):
    rule = cause.replace("_", "-")
    return Finding(rule, cause, severity, 3, 3, "one", "", {}, words, "look", confidence)


def test_a_run_that_learned_more_than_the_best_constant_is_healthy_and_says_why():
    found = judged({"scalar/loss": FALLING, "scalar/validation/loss": FALLING, **STEPPED}, events=(CALLED,))
    assert (found.verdict, found.words) == ("healthy", "healthy")
    assert found.reasons == (
        f"the loss went from 2.3 to {FALLING[-1]:.4g}, with a median of 0.2013 in the last 24 records, "
        "where the best constant answer costs 2.303",
    )
    assert found.not_checked == ("what the output depends on, and what the loss reaches",)
    assert found.next_command == "mindscope doctor SCRIPT"


@pytest.mark.parametrize(
    ("series", "events"),
    [
        ({"scalar/loss": FALLING}, ()),
        ({"scalar/loss": (2.3,) * 60}, (CALLED,)),
        # a sum of terms: the cost of guessing says nothing of it
        (
            {"scalar/loss": FALLING},
            (CALLED, *(Event("accumulation", at, data={"factor": 1 + at / 5}) for at in (0, 1))),
        ),
    ],
    ids=["unknown-loss", "not-learned", "terms"],
)
def test_without_reasons_no_fault_was_found_which_is_healthy_for_programs(series, events):
    found = judged({**series, **STEPPED}, events=events)
    assert (found.verdict, found.words, found.reasons) == ("healthy", "no fault found", ())
    assert "best constant answer" in found.not_checked[0]
    assert found.not_checked[1].endswith(
        'no validation/loss was logged; with ms.watch in the script, monitor.log({"validation/loss": ...}) would tell'
    )


def test_a_scalar_that_would_tell_one_thing_is_no_remedy_for_the_others():
    found = judged({"scalar/loss": FALLING, **STEPPED}, events=(check_event("held"),))
    assert len(found.not_checked) == 2
    assert found.next_command == "mindscope diagnose ITS_NAME --reference GOOD_RUN"


def test_checks_that_held_are_reasons_and_others_are_not_checked():
    series = {"scalar/loss": FALLING, "scalar/validation/loss": FALLING, **STEPPED}
    found = judged(series, events=(CALLED, check_event("held")))
    assert found.reasons[1] == "checked: the model fits one batch"
    assert (found.words, found.next_command) == ("healthy", "mindscope diagnose ITS_NAME --reference GOOD_RUN")
    broken = judged(series, events=(CALLED, check_event("held"), check_event("broken", counterexample="loss 2.3")))
    assert broken.words == "no fault found"
    assert "the model fits one batch: loss 2.3" in broken.not_checked


def test_too_few_records_and_a_run_that_failed_are_undetermined():
    short = judged({"scalar/loss": (2.0,) * 4})
    assert short.words == "undetermined"
    assert "update was recorded 0 times, learning-rate-too-high needs 10" in short.reasons
    failed = judged({"scalar/loss": FALLING, **STEPPED}, state="failed")
    assert failed.reasons == ("the run ended early, and no rule found why",)


def test_a_process_that_was_ended_from_outside_has_no_verdict_and_the_reason_is_told():
    killed = finding("process_killed", "info", words="the process was ended by SIGTERM at train.py:7")
    ended = judge([killed], RunFacts("crashed", seen={"update": 40}))
    assert (ended.verdict, ended.reasons) == ("undetermined", (f"the run ended early: {killed.explanation}",))


def test_only_findings_that_are_no_notices_make_a_run_unhealthy():
    facts = RunFacts("finished", seen=dict.fromkeys(("scalar/loss", "update", "gradient"), 40))
    assert judge([finding("dead_units", "warning")], facts).reasons == ("found: dead_units",)
    asked = finding("frozen_parameter", "info", confidence=0.5, words="it is frozen; is that meant?")
    judgement = judge([asked, finding("loss_spike", "info"), finding("monitor_fault", "warning")], facts)
    assert (judgement.words, judgement.questions) == ("no fault found", (asked,))


def test_a_withdrawn_finding_asks_nothing():
    assert is_question(finding("frozen_parameter", "info", confidence=0.5, words="is that meant?"))
    assert not is_question(finding("frozen_parameter", "info", confidence=0.1, words="is that meant?"))
    assert not is_question(finding("frozen_parameter", "info", confidence=0.5))
    assert not is_question(finding("frozen_parameter", "warning", confidence=0.5, words="is that meant?"))


def test_the_verdict_is_known_while_the_run_goes_on():
    live = LiveDiagnosis()
    with open_store("memory:") as store:
        live.begin(store.begin_run("run").run, MODEL)
        for record in Recording({"scalar/loss": FALLING, **STEPPED}, MODEL, (CALLED,)).records():
            live.observe(record)
    assert live.judgement == live.diagnosis().judgement
    assert live.judgement.words == "healthy"


def test_a_run_with_networks_that_were_trained_behind_the_recorded_one_is_not_called_healthy():
    later = Event("later_training", 40, "student", data={"networks": "student (Student)", "watched": "Teacher"})
    found = judged({"scalar/loss": FALLING, **STEPPED}, events=(CALLED, later))
    assert found.words == "no fault found"
    assert found.not_checked[0] == "how student (Student) learned, which was trained behind the recorded model"


def test_a_short_run_is_said_to_go_from_its_first_loss_to_its_last_ones():
    series = {"scalar/loss": (1.1, *(1e-8,) * 19), "scalar/validation/loss": 1.0}
    steps = {name: values[:20] for name, values in STEPPED.items()}
    (reason,) = judged({**series, **steps}, events=(CALLED,)).reasons
    assert reason.startswith("the loss went from 1.1 to 1e-08,")
    falling = judged({"scalar/loss": FALLING[:20], **steps}, events=(CALLED,))
    last = FALLING[19]  # as `mindscope show` says
    assert falling.reasons[0].startswith(
        f"the loss went from 2.3 to {last:.4g}, with a median of 1.094 in the last 10 "
    )


def test_of_several_learners_each_loss_is_said_and_not_their_sum():
    learners = [{"name": name, "optimizers": [number]} for number, name in enumerate(("actor", "critic"))]
    series = {"scalar/loss": 3.0, "scalar/actor/loss": (2.0, *(1.5,) * 59), "scalar/critic/loss": (1.0, *(1.5,) * 59)}
    found = judged({**series, **STEPPED}, events=(Event("learners", 0, data={"learners": learners}),))
    assert found.not_checked[0] == (
        "whether the losses (that of actor went from 2 to 1.5, that of critic went from 1 to 1.5) are better than "
        "those of the best constant answers"
    )


@pytest.mark.parametrize(("has_validation", "words"), [(False, "no fault found"), (True, "healthy")])
def test_labels_that_looked_like_those_of_others_at_first_may_have_been_memorised(has_validation, words):
    doubted = finding("uninformative_labels", "info", confidence=0.1, words="the loss stood at the entropy at first")
    facts = RunFacts(state="finished", last_step=60, has_validation=has_validation)
    facts.seen = {"scalar/loss": 60, "update": 60, "gradient": 60}
    facts.known.learn_event(CALLED)
    for loss in FALLING:
        facts.loss.learn(loss)
    found = judge([doubted], facts)
    assert (found.verdict, found.words) == ("healthy", words)
    assert any("memorised" in one for one in found.not_checked) != has_validation
