"""The table of broken trainings, and a few of its runs from the script to the verdict."""

import pytest
from mindscope.insight import RULES

from benchmarks.faults.cases import CASES, chosen, faults, healthy_runs
from benchmarks.faults.report import document, lines
from benchmarks.faults.run import run_case
from benchmarks.faults.score import judge
from benchmarks.faults.table import SCRIPTS

#: One of each kind of truth: a site, no site, a step in mid-run; on both engines.
SAMPLE = ("frozen-layer", "engine-softmax-twice", "same-batch", "engine-relu-dies")


def test_there_are_as_many_cases_as_were_promised() -> None:
    assert len(faults()) >= 45
    assert len(healthy_runs()) >= 15


def test_every_cause_has_a_rule_that_can_name_it() -> None:
    known = {rule.cause for rule in RULES.values()}
    assert {cause for case in faults() for cause in case.causes} <= known


def test_every_case_says_in_a_sentence_what_was_done() -> None:
    assert [case.name for case in CASES.values() if not case.summary.endswith(".")] == []


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_the_same_one_for_the_same_seed(name: str) -> None:
    case = CASES[name]
    first, second = case.prepare(3)[1], case.prepare(3)[1]
    assert first == second
    assert 0 <= first.onset < case.prepare(3)[0].steps
    assert first.rank is None or first.rank < SCRIPTS[case.script].world


def test_an_unknown_word_names_the_cases_there_are() -> None:
    with pytest.raises(ValueError, match=r"no case is named like frozen-leyer; there are .*frozen-layer"):
        chosen(["frozen-leyer"])


@pytest.mark.parametrize("name", SAMPLE)
def test_what_was_done_is_the_first_root_cause_and_the_twin_is_healthy(name: str) -> None:
    case = CASES[name]
    outcome, twin = run_case(case, 2), run_case(case.twin(), 2)
    judged = judge(case, outcome, twin)
    assert twin.alarms == ()
    assert judged.is_new
    assert judged.is_named, outcome.roots
    assert judged.is_placed is not False


def test_a_document_is_made_of_a_case_and_its_twin() -> None:
    cases = [CASES["rate-too-low"], CASES["gru"]]
    written = document(cases, [run_case(case, 0) for case in cases], (0,))
    assert {row["metric"] for row in written["results"]} >= {"cause, first", "runs with any warning"}
    assert written["missed"] == {}
    assert any("MISSED" in line or "met" in line for line in lines(written))


@pytest.mark.slow
def test_ranks_that_train_together_leave_one_run() -> None:
    outcome = run_case(CASES["loaded-on-one-rank"], 1)
    assert outcome.error == ""
    assert outcome.roots[0].cause == "rank_desync"
