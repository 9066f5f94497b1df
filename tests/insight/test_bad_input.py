"""Runs that no diagnosis is made for: one step, ranks that stop early, clocks that differ, gaps, missing subjects, NaN
everywhere, steps beyond any count, micro-steps, a process that was killed."""

import math
from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording, diagnose, render_text
from mindscope.insight.compare import compare
from mindscope.insight.recording import chain
from mindscope.storage import Event, OptimizerInfo, open_store

MODEL = chain("one:Dense", "two:Dense", "three:Dense")
HEALTHY = {
    "scalar/loss": tuple(2.3 * 0.96**step for step in range(60)),
    "scalar/learning_rate": 0.01,
    "one.weight gradient/l2_norm": 1.0,
    "one.weight weight/mean": tuple(0.1 + 0.001 * step for step in range(60)),
    "one.weight update/ratio_to_weight": 0.01,
    "one.weight update/l2_norm": 0.08,
    "one activation/mean": tuple(0.1 + 0.01 * (-1) ** step for step in range(60)),
}
BROKEN = HEALTHY | {"one activation/nans": (*(0.0,) * 20, *(3.0,) * 40)}


def diagnosis(*ranks, structure=MODEL):
    """Of one run whose ranks have left these records."""
    with open_store("memory:") as store:
        first = None
        for rank, records in enumerate(ranks):
            writer = store.begin_run("run", rank=rank, run_id=first)
            first = first or writer.run.id
            writer.write_structure(structure)
            writer.write(list(records))
            writer.close("finished")
        return diagnose(store, "run")


def records(series, structure=MODEL):
    return list(Recording(series, structure).records())


def test_a_run_of_one_step_claims_nothing_and_says_how_much_is_needed():
    found = diagnosis(records(HEALTHY)[:1])
    assert found.verdict == "undetermined"
    assert found.reasons["learning-rate-too-high"] == "scalar/loss was recorded once, 10 are needed"
    assert set(found.rules_not_run) == set(found.reasons)
    assert not set(found.rules_run) & set(found.rules_not_run)


def test_a_run_of_no_step_claims_nothing():
    found = diagnosis([])
    assert found.verdict == "undetermined"
    assert found.findings == ()
    assert "non-finite-loss" in found.rules_not_run


@pytest.mark.parametrize("subject", ["gradient", "activation", "update"])
def test_rules_whose_subject_was_not_recorded_are_listed_and_the_run_is_not_called_healthy(subject):
    left = {name: values for name, values in HEALTHY.items() if f" {subject}/" not in name}
    found = diagnosis(records(left))
    dependent = {rule.name for rule in RULES.values() if subject in rule.needs and not rule.is_optional}
    assert dependent <= set(found.rules_not_run)
    assert all(
        f"{subject} was never recorded" in found.reasons[name] for name in dependent if "and" not in found.reasons[name]
    )
    if any(RULES[name].essential for name in dependent):
        assert found.verdict == "undetermined"


def test_a_rank_that_stopped_early_keeps_its_findings_and_those_of_the_others():
    alone = diagnosis(records(BROKEN))
    found = diagnosis(records(HEALTHY), records(BROKEN)[:25], records(HEALTHY)[:1])
    reported = [(finding.cause, finding.rank, finding.first_step) for finding in found.findings]
    assert reported == [(finding.cause, 1, finding.first_step) for finding in alone.findings if finding.step < 25]
    assert found.root_causes[0].rank == 1
    assert found.verdict == "unhealthy"


@pytest.mark.parametrize("shift", [-1e9, 3600.0], ids=["years behind", "an hour ahead"])
def test_clocks_that_differ_between_ranks_or_run_backwards_change_nothing(shift):
    plain = diagnosis(records(HEALTHY), records(BROKEN))
    shifted = [replace(record, time=shift - record.time) for record in records(BROKEN)]
    assert diagnosis(records(HEALTHY), shifted).findings == plain.findings


def test_steps_that_are_missing_are_not_taken_for_a_change_of_the_optimizers_state():
    betas = OptimizerInfo("Adam", ({"lr": 0.01, "betas": [0.9, 0.999], "weight_decay": 0.0},))
    model = replace(MODEL, optimizers=(betas,))
    kept = tuple(0.25 * (1 - 0.999 ** (step + 1)) for step in range(60))
    moment = {"one.weight optimizer/exp_avg_sq/mean": kept, "one.weight gradient/l2_norm": 4.0}
    moment |= {"one.weight update/max": 0.005, "one.weight update/min": 0.0}
    whole = records(HEALTHY | moment, model)
    assert diagnosis([*whole[:20], *whole[40:]], structure=model).findings == ()


def test_a_gap_before_a_fault_hides_it_no_more_than_it_must():
    whole = records(BROKEN)
    found = diagnosis([*whole[:10], *whole[30:]])
    assert [finding.cause for finding in found.root_causes] == ["non_finite_activation"]
    assert found.root_causes[0].first_step == 30


def test_events_without_what_they_should_say_are_no_reason_to_fail():
    kinds = sorted(
        {need.partition("/")[2] for rule in RULES.values() for need in rule.needs if need.startswith("event/")}
    )
    bare = [Event(kind, 0) for kind in (*kinds, "loss_input", "forward_modes", "causality", "initial_weight")]
    odd = [Event(record.kind, 1, data={"at": "soon", "by_rank": 3, "sites": None, "weights": ["x"]}) for record in bare]
    first, second, *rest = records(HEALTHY)
    found = diagnosis([replace(first, events=tuple(bare)), replace(second, events=tuple(odd)), *rest])
    assert [finding.explanation for finding in found.findings if finding.cause == "monitor_fault"] == []


def test_a_run_in_which_nothing_is_a_number_is_told_so_and_no_rule_fails():
    nan = {name: math.nan for name in HEALTHY} | {"scalar/learning_rate": 0.01, "one activation/nans": 4.0}
    found = diagnosis(records(nan))
    assert found.verdict == "unhealthy"
    assert [finding.explanation for finding in found.findings if finding.cause == "monitor_fault"] == []
    assert found.root_causes[0].cause in ("non_finite_activation", "bad_batch", "non_finite_loss")
    assert found.root_causes[0].first_step == 0


@pytest.mark.parametrize("begin", [10**9, 2**40])
def test_steps_beyond_any_count_are_steps(begin):
    late = [replace(record, step=begin + record.step) for record in records(BROKEN)]
    found = diagnosis(late)
    assert [(finding.cause, finding.first_step) for finding in found.root_causes] == [
        ("non_finite_activation", begin + 20)
    ]
    assert f"since step {begin + 20}" in render_text(found)


def test_the_micro_step_in_which_it_began_is_not_hidden_by_the_others():
    bad = records({"one activation/nans": 3.0}, MODEL)[0]
    micro = [
        replace(record, micro_step=number, blocks=bad.blocks if (record.step, number) == (5, 1) else record.blocks)
        for record in records(HEALTHY)[:20]
        for number in range(2)
    ]
    assert [(finding.cause, finding.first_step) for finding in diagnosis(micro).root_causes] == [
        ("non_finite_activation", 5)
    ]


def test_runs_that_were_killed_or_are_still_written_are_compared_as_far_as_they_go():
    with open_store("memory:") as store:
        for name, count in (("killed", 7), ("whole", 30)):
            writer = store.begin_run(name)
            writer.write_structure(MODEL)
            writer.write(records(HEALTHY)[:count])
        found = compare((store, store), (store.find_run("killed"), store.find_run("whole")))
    assert (found.verdict, found.common, found.missing) == ("identical", 7, (0, 0))
