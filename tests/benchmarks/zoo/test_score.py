"""How the zoo's cases become figures."""

from dataclasses import replace
from math import isnan, nan

import pytest

from benchmarks import render
from benchmarks.faults.outcome import Alarm
from benchmarks.mutations import Harm
from benchmarks.zoo.case import Case, plan_mutants
from benchmarks.zoo.entries import ENTRIES
from benchmarks.zoo.report import document, lines
from benchmarks.zoo.score import (
    by_other_families,
    calibration_error,
    claims,
    false_alarms,
    identical,
    is_at,
    judge,
    record_of,
)
from benchmarks.zoo.trial import Cost, Watched

COST = Cost(10.0, 11.0, 300.0, "0.5", 0, "")
HARM = Harm(0.001, 3.0, True, "its result is worse")


def alarm(cause, site="", confidence=0.9, severity="warning"):
    return Alarm(cause.replace("_", "-"), cause, severity, site, 0, 5, 5, "so it is", confidence)


def case(*roots, operator="", cause=None, attribute="", harm=None, result="0.5", name="cnn"):
    cost = Cost(12.0, 13.0, 400.0, result, 0, "")
    watched = Watched(cost, "unhealthy" if roots else "healthy", roots, roots)
    return Case(ENTRIES[name], 0, operator, cause, attribute, "cnn.py:3: a change", harm, COST, watched)


def fault(*roots, cause="wrong_loss_sign", attribute=""):
    return case(*roots, operator="negated-loss", cause=cause, attribute=attribute, harm=HARM)


def test_the_right_word_first_and_third_are_told_apart():
    first = judge(fault(alarm("wrong_loss_sign")), None)
    third = judge(fault(alarm("plateau"), alarm("dead_units"), alarm("wrong_loss_sign")), None)
    assert (first.is_named, first.is_near) == (True, True)
    assert (third.is_named, third.is_near) == (False, True)


def test_an_alarm_that_the_healthy_program_raises_too_detects_nothing():
    judged = judge(fault(alarm("memory_growth")), case(alarm("memory_growth")))
    assert judged.is_seen
    assert not judged.is_new


def test_a_bare_result_of_another_machine_says_nothing_of_what_the_monitor_changes():
    ours, changed = case(), case(result="0.75")
    elsewhere = replace(changed, plain=replace(COST, cpu_s=nan))
    assert identical([ours, changed, elsewhere]) == [True, False]


def test_without_a_word_or_a_site_nothing_can_be_named_or_placed():
    judged = judge(fault(alarm("plateau"), cause=None), None)
    assert judged.is_named is None
    assert judged.is_placed is None


@pytest.mark.parametrize(
    ("site", "is_right"), [("model.fc1.weight", True), ("fc1", True), ("fc10", False), ("", False)]
)
def test_a_site_is_right_at_the_module_or_in_it(site, is_right):
    assert judge(fault(alarm("frozen_parameter", site), attribute="fc1"), None).is_placed == is_right


def test_a_site_within_a_sequence_is_right_at_its_place():
    placed = [is_at(site, "mlp.2") for site in ("h.0.mlp.2", "mlp.2.weight", "mlp.20", "mlp", "h.mlp.1.2")]
    assert placed == [True, True, False, False, False]


@pytest.mark.parametrize(("field", "name"), [("against", "beside a good run"), ("logged", "with ms.watch and scalars")])
def test_each_further_way_to_watch_has_rows_of_its_own(field, name):
    found = fault(alarm("plateau"), alarm("wrong_loss_sign")).watched
    cases = [replace(fault(attribute="fc1"), **{field: found}), replace(case(), **{field: case().watched}), fault()]
    rows = {
        (row["case"], row["metric"]): row for row in document(cases, sealed=frozenset(), only_rates=True)["results"]
    }
    expected = {
        ("faults", f"detected, {name}"): (1, 1),
        ("silent faults", f"detected, {name}"): (1, 1),
        ("faults with a word", f"cause, first, {name}"): (0, 1),
        ("faults of one module", f"site, {name}"): (0, 1),
        ("healthy programs", f"with a warning, {name}"): (0, 1),
        ("faults", "detected"): (0, 2),
    }
    assert {key: (rows[key]["hits"], rows[key]["of"]) for key in expected} == expected


def test_with_scalars_the_targets_are_those_of_a_watched_program():
    cases = [replace(one, logged=one.watched) for one in (case(), fault(alarm("wrong_loss_sign"), attribute="fc1"))]
    written = document(cases, sealed=frozenset(), only_rates=True)
    targets = {
        f"{row['case']}: {row['metric'].split(', with ms')[0]}": row["target"]
        for row in written["results"]
        if row["metric"].endswith("with ms.watch and scalars")
    }
    assert targets == {
        "faults: detected": 90.0,
        "silent faults: detected": 85.0,
        "faults with a word: cause, first": 85.0,
        "faults with a word: cause, first three": 92.0,
        "faults of one module: site": 85.0,
        "all runs: same result": 100.0,
        "healthy programs: with a warning": 2.0,
    }


def test_without_further_runs_there_are_no_such_rows():
    written = document([case(), fault()], sealed=frozenset(), only_rates=True)
    assert not [row for row in written["results"] if "beside" in row["metric"] or "scalars" in row["metric"]]


def test_the_calibration_error_is_the_gap_between_said_and_true():
    cases = [fault(alarm("wrong_loss_sign", confidence=0.95)), case(alarm("plateau", confidence=0.95))]
    assert calibration_error(claims(cases)) == pytest.approx(0.45)
    assert isnan(calibration_error([]))


def test_no_family_is_judged_by_its_own_record():
    wrong = [case(alarm("plateau", confidence=0.9), name="gan")] * 3
    right = [fault(alarm("wrong_loss_sign", confidence=0.9))]
    found = by_other_families(claims([*wrong, *right]))
    assert found[0].confidence > 0.5
    assert found[-1].confidence == 0.0
    assert record_of(claims([*wrong, *right])) == {"plateau": (0, 3), "wrong-loss-sign": (1, 1)}


def test_a_statement_that_was_verified_keeps_its_certainty():
    made = claims([fault(alarm("wrong_loss_sign", confidence=1.0)), case(alarm("plateau", confidence=0.5), name="gan")])
    assert [claim.confidence for claim in by_other_families(made)] == [1.0, 1.0]


def test_a_mutant_that_does_no_harm_is_a_healthy_run():
    harmless = case(alarm("plateau"), operator="no-bias", harm=Harm(0.6, 0.0, False, "its result is no worse"))
    assert not harmless.is_fault
    written = document([case(), harmless, fault(alarm("wrong_loss_sign"))], sealed=frozenset(), only_rates=False)
    rows = {(row["case"], row["metric"]): row for row in written["results"]}
    assert rows["mutants that do no harm", "with a warning"]["hits"] == 1
    assert rows["healthy programs", "with a warning"]["hits"] == 0
    assert rows["faults with a word", "cause, first"]["value"] == 100.0
    assert written["false alarms"] == {"plateau": ["cnn+no-bias"]}
    assert any("accused: cnn+no-bias" in line for line in lines(written))


def test_a_mutant_that_does_no_harm_may_be_told_of_what_was_planted():
    no_harm = Harm(0.6, 0.0, False, "its result is no worse")
    told = [alarm(cause) for cause in ("wrong_loss_sign", "plateau")]
    cases = [case(*told[:number], operator="negated-loss", harm=no_harm) for number in (0, 1, 2)]
    cases.append(case(told[1], operator="negated-loss", harm=no_harm))
    written = document(cases, sealed=frozenset(), only_rates=False)
    rows = {(row["case"], row["metric"]): row for row in written["results"] if row["case"] == "mutants that do no harm"}
    found = rows["mutants that do no harm", "with a warning of something else than what was planted"]
    assert (found["hits"], found["of"]) == (1, 4)
    assert rows["mutants that do no harm", "with a warning"]["hits"] == 3


def test_a_sealed_document_names_no_program():
    written = document([case(alarm("plateau")), fault()], sealed=frozenset({"image-classifier"}), only_rates=True)
    assert "cnn" not in repr(written)
    assert "so it is" not in repr(written)


def test_the_page_of_benchmarks_can_show_the_document():
    written = document([case(), fault(alarm("plateau"))], sealed=frozenset(), only_rates=False)
    page = render._section(written)
    assert "| faults | detected | 100 [20.65, 100] | % | 80 | yes |  |" in page
    assert "Misnamed: cnn+negated-loss (plateau)." in page
    assert "| faults of one module | site |  | % | 75 |  |  |" in page


def test_false_alarms_are_counted_once_a_run():
    found = false_alarms([case(alarm("plateau"), alarm("plateau", "fc")), case(alarm("plateau"), name="gan")])
    assert found == {"plateau": ["cnn", "gan"]}


def test_what_is_only_asked_is_counted_by_rule_in_faults_and_in_healthy_runs():
    asked = [alarm("plateau", severity="info"), alarm("plateau", "fc1", severity="info")]
    cases = [
        replace(one, watched=replace(one.watched, notices=tuple(notices)))
        for one, notices in ((fault(), asked), (fault(), asked[:1]), (case(), asked[1:]), (case(), []))
    ]
    read = replace(cases[0], watched=Watched.from_json(cases[0].watched.to_json()))
    expected = {"faults": 2, "healthy": 2, "by rule": {"plateau": [2, 1]}}
    assert document([read, *cases[1:]], sealed=frozenset(), only_rates=True)["notices"] == expected


def test_a_result_that_the_monitor_changed_is_named():
    written = document([case(result="0.50000001")], sealed=frozenset(), only_rates=False)
    assert written["changed by the monitor"] == ["cnn"]


def test_plans_repeat_nothing_and_use_every_operator_before_any_comes_back():
    entries = [one for one in ENTRIES.values() if one.group == "plain"]
    plans = plan_mutants(entries, sample=60, seed=3)
    assert plans == plan_mutants(entries, sample=60, seed=3)
    assert len({(plan.entry.name, plan.operator) for plan in plans}) == 60
    assert len({plan.operator for plan in plans}) >= 40
    assert not any(plan.operator.startswith("planted-") for plan in plans)
