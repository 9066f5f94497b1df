"""The diagnosis in words and as a document."""

import json
from dataclasses import replace

import pytest
from mindscope.insight import RULES, Diagnosis, account, render_markdown, render_text
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


def test_a_run_that_no_store_has_names_no_series():
    assert "look at it: store.series('run-1', " in render_text(SICK)
    rehearsed = replace(SICK, is_stored=False)
    assert "store.series" not in render_text(rehearsed)
    assert [one["query"] for one in rehearsed.to_json()["accounts"]] == [""]


def test_the_text_names_cause_site_step_and_what_to_do():
    text = render_text(SICK)
    assert text.startswith("run-1: unhealthy")
    assert "1. non_finite_loss at head since step 9" in text
    assert "what to do: look for log(0)" in text
    assert "also found:\n   warning: loss_spike at (model) since step 10: it rose" in text
    assert "dead-units: never recorded" in text


def test_what_follows_stands_under_its_cause_in_few_words_and_nowhere_else():
    dead = [replace(SPIKE, rule="dead-units", cause="dead_units", site=f"act{at}", first_step=11 + at) for at in (2, 1)]
    text = replace(SICK, findings=(BAD, SPIKE, *dead), follows=((SPIKE, *dead),)).to_text()
    assert (
        "   what followed: loss_spike at (model) since step 10; "
        "dead_units at act1 and at 1 more since step 12" in text.splitlines()
    )
    assert "also found" not in text
    assert text.count("loss_spike") == 1


def test_what_was_found_several_times_at_one_site_is_counted_and_explained_once():
    text = replace(SICK, findings=(BAD, SPIKE, replace(SPIKE, first_step=20), replace(SPIKE, first_step=30))).to_text()
    assert "   warning: loss_spike 3 times at (model) since step 10: it rose" in text.splitlines()


def test_numbers_have_few_digits_counts_all_of_theirs_and_what_is_not_known_is_left_out():
    evidence = {"update_ratio": 5.4950812, "values": 1648712.0, "usual": float("nan"), "lr": 1e-8}
    odd = replace(SPIKE, evidence=evidence)
    text = Diagnosis("run-1", "unhealthy", (odd,), (odd,)).to_text()
    assert "   evidence: update ratio 5.495, values 1648712, lr 1e-08" in text.splitlines()
    assert "   evidence: loss nan, last -inf, most inf" in SICK.to_text().splitlines()


def test_a_rank_is_named_wherever_there_are_several():
    assert (
        "loss_spike at (model) of rank 1" in Diagnosis("r", "unhealthy", (replace(SPIKE, rank=1),), (SPIKE,)).to_text()
    )
    assert "rank" not in Diagnosis("r", "unhealthy", (SPIKE,), (SPIKE,)).to_text()
    diagnosis = Diagnosis("r", "unhealthy", (SPIKE,), (SPIKE, replace(SPIKE, rank=1)), ranks=(0, 1))
    assert "loss_spike at (model) of rank 0" in diagnosis.to_text()
    assert "   the same on ranks: 1" in diagnosis.to_text().splitlines()
    assert diagnosis.to_json()["accounts"][0]["ranks"] == [1]


def test_the_batch_of_a_moment_is_named():
    diagnosis = replace(SICK, batches={BAD.key: "number 12, checksum ab"})
    assert "   the batch: number 12, checksum ab" in diagnosis.to_text().splitlines()
    assert diagnosis.to_json()["accounts"][0]["batch"] == "number 12, checksum ab"
    assert "the batch" not in SICK.to_text()


def test_a_long_list_is_cut_and_the_document_holds_all_of_it():
    checked = replace(SICK, rules_run=tuple(RULES))
    ruled_out = checked.accounts()[0].ruled_out
    (line,) = [line for line in checked.to_text().splitlines() if line.startswith("   no sign of: ")]
    assert line.endswith(f"{ruled_out[5]} and {len(ruled_out) - 6} more")
    assert checked.to_json()["accounts"][0]["ruled_out"] == list(ruled_out)


def test_rules_that_could_not_run_for_one_reason_share_a_line():
    text = replace(SICK, reasons={"a": "x was never recorded", "b": "y", "c": "x was never recorded"}).to_text()
    assert text.splitlines()[-2:] == ["   a, c: x was never recorded", "   b: y"]


def test_what_needs_a_reference_says_so_until_there_is_one():
    diagnosis = Diagnosis("run-1", "unhealthy", (SPIKE,), (SPIKE,))
    assert "   needs a reference: this run alone cannot tell" in diagnosis.to_text()
    compared = replace(diagnosis, reference="good").to_text()
    assert "needs a reference" not in compared
    assert "   compared with: the good run 'good'" in compared.splitlines()


def test_it_is_said_how_sure_a_cause_is():
    certain = replace(SICK, root_causes=(SPIKE,)).to_text()
    assert "   how sure: a suspicion, which the shape of the curves alone gives" in certain
    assert "70%" not in certain
    assert "   how sure: a fact, measured in this run" in SICK.to_text()


def test_a_healthy_run_is_one_line():
    assert render_text(Diagnosis("run-1", "healthy")).count("\n") == 0


@pytest.mark.parametrize(
    ("state", "error", "step", "words"),
    [
        ("failed", "ValueError: boom", 30, "the run failed at step 30: ValueError: boom"),
        ("failed", "KeyboardInterrupt: ", 30, "the run was interrupted at step 30"),
        ("failed", "TrainingStopped: a person did", 30, "the run was stopped at step 30: a person did"),
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
    checked = replace(SICK, last_step=200, rules_run=("learning-rate-too-high", "loss-spike", "missing-warmup"))
    account = checked.accounts()[0]
    assert account.query == "store.series('run-1', '', 'scalar/loss', first=0, last=59)"
    assert replace(checked, last_step=20).accounts()[0].query.endswith("first=0, last=20)")
    assert account.ruled_out == ("learning_rate_too_high", "missing_warmup")
    assert "non_finite_activation" in account.not_checked
    assert "   no sign of: learning_rate_too_high, missing_warmup" in checked.to_text().splitlines()
    assert checked.to_json()["accounts"][0]["query"] == account.query


def test_what_was_found_as_well_is_not_ruled_out():
    warmed = replace(SPIKE, rule="missing-warmup", cause="missing_warmup")
    checked = replace(SICK, findings=(BAD, warmed), rules_run=("learning-rate-too-high", "missing-warmup"))
    assert checked.accounts()[0].ruled_out == ("learning_rate_too_high",)


def test_what_only_a_person_can_tell_is_asked():
    frozen = replace(BAD, rule="frozen-parameter", cause="frozen_parameter", metric="")
    diagnosis = Diagnosis("run-1", "unhealthy", (frozen,), (frozen,))
    assert diagnosis.accounts()[0].asks == "intent"
    assert diagnosis.accounts()[0].query == ""
    assert "needs your intent: the fact is certain" in diagnosis.to_text()
    assert "Needs your intent" in diagnosis.to_markdown()


@pytest.mark.parametrize(("severity", "asks"), [("error", ""), ("info", "intent")])
def test_a_leak_that_was_verified_needs_nobody_to_say_whether_it_is_meant(severity, asks):
    leak = replace(BAD, rule="data-leak", cause="data_leak", severity=severity)
    assert Diagnosis("run-1", "unhealthy", (leak,), (leak,)).accounts()[0].asks == asks


def test_a_root_cause_says_where_else_it_shows_and_how_often_its_rule_was_right(monkeypatch):
    monkeypatch.setattr(account, "NAMED", {BAD.rule: (7, 8)})
    diagnosis = replace(
        SICK, findings=(*SICK.findings, replace(BAD, site="tail"), replace(BAD, site="late", first_step=99))
    )
    assert "   the same at: tail" in diagnosis.to_text().splitlines()
    assert "a fact, measured in this run. In test programs of our own" in diagnosis.to_markdown()
    assert "named its cause 8 times, and was right 7 times." in diagnosis.to_markdown()
    reported = diagnosis.to_json()["accounts"][0]
    assert (reported["also"], reported["named"], reported["right"]) == (["tail"], 8, 7)


def test_a_straggler_is_said_to_be_measured_and_not_to_be_33_percent_sure():
    slow = replace(SPIKE, rule="straggler", cause="straggler", confidence=0.33, explanation="rank 1 needs 50 ms more")
    text = render_text(replace(SICK, root_causes=(slow,), findings=(slow,)))
    assert "   how sure: the times were measured in this run" in text
    assert "33" not in text
