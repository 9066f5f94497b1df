"""The diagnosis in words and as a document."""

import json
from dataclasses import replace

import pytest
from mindscope.insight import Diagnosis, account, render_markdown, render_text
from mindscope.storage import Finding

SPIKE = Finding(
    "loss-spike", "loss_spike", "warning", 12, 10, "", "scalar/loss", {"loss": 5.0}, "it rose", "look", confidence=0.7
)
BAD = Finding(
    "non-finite-loss",
    "non_finite_loss",
    "error",
    9,
    9,
    "head",
    "scalar/loss",
    {"loss": float("nan"), "last": float("-inf"), "most": float("inf")},
    "the loss became nan",
    "look for log(0)",
)
SICK = Diagnosis("run-1", "unhealthy", (BAD,), (BAD, SPIKE), ("dead-units",), {"dead-units": "never recorded"})


def test_the_document_is_valid_json_whatever_the_evidence():
    document = json.loads(json.dumps(SICK.to_json(), allow_nan=False))
    assert list(document)[:4] == ["run", "verdict", "root_causes", "findings"]
    evidence = document["root_causes"][0]["evidence"]
    assert evidence == {"loss": "NaN", "last": "-Infinity", "most": "Infinity"}
    assert float(evidence["last"]) == float("-inf")


def test_a_finding_in_the_document_has_the_keys_of_the_design():
    assert list(SICK.to_json()["findings"][0]) == [
        "rule",
        "cause",
        "severity",
        "step",
        "first_step",
        "site",
        "rank",
        "metric",
        "evidence",
        "explanation",
        "advice",
        "confidence",
    ]


def test_the_text_names_cause_site_step_and_what_to_do():
    text = render_text(SICK)
    assert text.startswith("run-1: unhealthy")
    assert "1. non_finite_loss at head since step 9" in text
    assert "what to do: look for log(0)" in text
    assert "warning: loss_spike at (model) since step 10, seen at step 12, confidence 70%" in text
    assert "dead-units: never recorded" in text


def test_a_healthy_run_is_one_line():
    assert render_text(Diagnosis("run-1", "healthy")).count("\n") == 0


@pytest.mark.parametrize(
    ("state", "error", "step", "words"),
    [
        ("failed", "ValueError: boom", 30, "the run failed at step 30: ValueError: boom"),
        ("failed", "KeyboardInterrupt: ", 30, "the run was interrupted at step 30"),
        ("failed", "OSError: no\n  room", -1, "the run failed before its first step: OSError: no room"),
        ("crashed", "", 7, "the run crashed at step 7"),
        ("running", "", 7, "the run is still running, at step 7"),
    ],
)
@pytest.mark.parametrize("verdict", ["undetermined", "unhealthy"])
def test_every_form_says_how_a_run_ended(state, error, step, words, verdict):
    ended = replace(SICK, verdict=verdict, state=state, error=error, last_step=step)
    assert words in ended.to_text().splitlines()[1]
    assert words in ended.to_markdown()
    document = ended.to_json()
    assert (document["state"], document["error"], document["last_step"]) == (state, error, step)


def test_of_a_run_that_failed_it_is_not_said_that_too_little_was_recorded():
    assert "ended early, and no rule found why" in render_text(Diagnosis("run-1", "undetermined", state="failed"))
    assert "too little was recorded" in render_text(Diagnosis("run-1", "undetermined"))


def test_markdown_has_a_table_of_the_evidence():
    text = render_markdown(SICK)
    assert text.startswith("## run-1: unhealthy")
    assert "| loss | nan |" in text
    assert "- warning: loss_spike" in text


def test_a_root_cause_says_how_to_look_at_it_and_what_was_ruled_out():
    checked = replace(SICK, rules_run=("learning-rate-too-high", "loss-spike", "missing-warmup"))
    account = checked.accounts()[0]
    assert account.query == "store.series('run-1', 'head', 'scalar/loss', first=0, last=59)"
    assert account.ruled_out == ("learning_rate_too_high", "missing_warmup")
    assert "non_finite_activation" in account.not_checked
    assert "   ruled out: learning_rate_too_high, missing_warmup" in checked.to_text().splitlines()
    assert checked.to_json()["accounts"][0]["query"] == account.query


def test_what_was_found_as_well_is_not_ruled_out():
    warmed = replace(SPIKE, rule="missing-warmup", cause="missing_warmup")
    checked = replace(SICK, findings=(BAD, warmed), rules_run=("learning-rate-too-high", "missing-warmup"))
    assert checked.accounts()[0].ruled_out == ("learning_rate_too_high",)


def test_what_only_a_person_can_tell_is_asked():
    frozen = replace(BAD, rule="frozen-parameter", cause="frozen_parameter", metric="")
    asked = Diagnosis("run-1", "unhealthy", (frozen,), (frozen,))
    assert asked.accounts()[0].asks == "intent"
    assert asked.accounts()[0].query == ""
    assert "needs your intent: the fact is certain" in asked.to_text()
    assert "Needs your intent" in asked.to_markdown()


def test_a_root_cause_says_where_else_it_shows_and_how_often_its_rule_was_right(monkeypatch):
    monkeypatch.setattr(account, "NAMED", {BAD.rule: (7, 8)})
    told = replace(SICK, findings=(*SICK.findings, replace(BAD, site="tail"), replace(BAD, site="late", first_step=99)))
    assert "   the same at: tail" in told.to_text().splitlines()
    assert "So far: right in 7 of the 8 runs of the benchmark in which it was named." in told.to_markdown()
    said = told.to_json()["accounts"][0]
    assert (said["also"], said["named"], said["right"]) == (["tail"], 8, 7)
