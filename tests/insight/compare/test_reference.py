"""A good run makes a diagnosis more sensitive, and excuses what it has itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight import diagnose
from mindscope.insight.compare import diagnose_against
from mindscope.insight.compare.reference_run import WINDOW, departures
from mindscope.storage import Block, Finding, Layout, ModuleInfo, ParameterInfo, StepRecord, Structure, open_store

SITES = ("embed", "body", "head")
WEIGHTS = ("embed.weight", "body.weight", "head.weight")
STEPS = 60


def training(steps=range(STEPS), *, seed=0, loss=lambda step: 2.3 * 0.97**step, change=lambda step, site: 1.0):
    """A loss that falls, and activations and updates that scatter by a tenth; `change` is a factor on both."""
    rng = np.random.default_rng(seed)
    for step in steps:
        scatter = np.exp(0.1 * rng.standard_normal((2, len(SITES), 1)))
        factors = np.array([[change(step, site)] for site in SITES])
        blocks = (
            Block(Layout("activation", SITES, ("l2_norm",), ("float64",)), 8.0 * scatter[0] * factors),
            Block(Layout("update", WEIGHTS, ("ratio_to_weight",), ("float64",)), 0.01 * scatter[1] * factors),
        )
        yield StepRecord(step, float(step), blocks=blocks, scalars={"loss": loss(step) * (1 + 0.1 * rng.random())})


def structure(frozen=(), vectors=()):
    modules = tuple(ModuleInfo(site, "Dense", at) for at, site in enumerate(SITES))
    parameters = tuple(
        ParameterInfo(
            f"{site}.weight",
            (8,) if site in vectors else (8, 8),
            "float32",
            requires_grad=site not in frozen,
            group=(0, 0),
        )
        for site in SITES
    )
    return Structure(modules, parameters)


def against(run, good, frozen=((), ()), vectors=()):
    """Departures, common steps, and the diagnosis of the run with the good one."""
    with open_store("memory:") as store:
        for name, records, still in (("run", run, frozen[0]), ("good", good, frozen[1])):
            writer = store.begin_run(name)
            writer.write_structure(structure(still, vectors))
            writer.write(list(records))
            writer.close()
        pair = (store, store), (store.find_run("run"), store.find_run("good"))
        return *departures(*pair), diagnose_against(*pair), diagnose(store, "run")


def root(found) -> Finding:
    (finding,) = found.root_causes
    return finding


def test_another_seed_of_one_training_stays_on_its_course() -> None:
    left, common, found, _ = against(training(seed=1), training())
    assert (left, common) == ((), STEPS)
    assert found.reference == "good"
    assert found.verdict != "unhealthy"


def test_a_loss_that_stops_falling_is_found_though_no_rule_says_so() -> None:
    stalled = training(range(90), seed=1, loss=lambda step: 2.3 * 0.97 ** min(step, 5))
    left, _, found, alone = against(stalled, training(range(90)))
    assert alone.verdict != "unhealthy"
    assert (root(found).cause, root(found).metric) == ("unknown", "scalar/loss")
    # where it is 3.2 times what the good run has, a tenth of the first loss added to both
    apart = math.log((0.97**5 + 0.1) / 3.2 - 0.1) / math.log(0.97)
    assert left[0].first_step == pytest.approx(apart, abs=6)
    evidence = root(found).evidence
    floor = 0.1 * 2.3
    assert evidence["value"] + floor > evidence["limit"] * (evidence["value_of_the_good_run"] + floor)


def test_the_first_site_that_leaves_is_named() -> None:
    spreads = {"embed": 45, "body": 30, "head": 33}
    left, _, found, _ = against(
        training(seed=1, change=lambda step, site: 20.0 if step >= spreads[site] else 1.0), training()
    )
    assert [(departure.site, departure.first_step) for departure in left if departure.metric == "activation/l2_norm"][
        :2
    ] == [
        ("body", 30),
        ("head", 33),
    ]
    assert (root(found).site, root(found).first_step) == ("body", 30)
    assert root(found).evidence["sites"] >= 2


def test_a_norm_of_few_elements_is_not_asked() -> None:
    def alone(step, site):
        return 9.0 if site == "head" else 1.0

    assert against(training(change=alone), training(seed=1))[0][0].site == "head.weight"
    assert against(training(change=alone), training(seed=1), vectors=("head",))[0] == ()


def test_what_is_not_finite_or_stands_still_has_left() -> None:
    nan, _, _, _ = against(training(change=lambda step, _: math.nan if step >= 40 else 1.0), training(seed=1))
    assert nan[0].first_step == 40
    still, _, _, _ = against(training(change=lambda _, site: 0.0 if site == "head" else 1.0), training(seed=1))
    assert {finding.site for finding in still} == {"head", "head.weight"}


def test_a_single_spike_is_left_to_the_rules() -> None:
    assert against(training(change=lambda step, _: 50.0 if step == 30 else 1.0), training(seed=1))[0] == ()


def test_what_the_good_run_has_as_well_is_no_fault() -> None:
    left, _, found, alone = against(training(seed=1), training(), frozen=(("body",), ("body",)))
    assert [finding.cause for finding in alone.questions] == ["frozen_parameter"]
    assert (alone.verdict, found.questions) == ("undetermined", ())
    assert (left, found.root_causes) == ((), ())
    assert "the good run 'good' has the same" in found.findings[0].explanation
    only_here = against(training(seed=1), training(), frozen=(("body",), ("head",)))[2]
    assert [finding.site for finding in only_here.root_causes] == ["body"]


@pytest.mark.parametrize("steps", [range(WINDOW - 1), range(STEPS, STEPS + 30)], ids=["short", "elsewhere"])
def test_a_good_run_with_too_few_common_steps_is_said_to_say_nothing(steps) -> None:
    left, common, found, _ = against(training(seed=1), training(steps))
    assert left == ()
    assert found.reasons["reference"] == f"the good run has {common} steps in common with this one, 15 are needed"


def test_gaps_in_either_run_cost_nothing_but_their_steps() -> None:
    left, common, _, _ = against(training(range(0, STEPS, 2), seed=1), training())
    assert (left, common) == ((), STEPS // 2)


def accumulated(records, parts):
    """The same training with its batch in so many micro-steps: what the optimizer did stands in the last one."""
    for record in records:
        forward, update = record.blocks
        for part in range(parts):
            is_last = part == parts - 1
            blocks = (forward, update) if is_last else (forward,)
            loss = record.scalars["loss"] / parts
            yield replace(record, micro_step=part, blocks=blocks, scalars={"loss": loss})


@pytest.mark.parametrize("parts", [2, 4])
def test_what_the_optimizer_did_is_followed_where_gradients_are_gathered_over_micro_steps(parts) -> None:
    def changed(step, site):
        return 9.0 if site == "head" and step >= 30 else 1.0  # an activation may differ by 12, an update by 4

    left, common, _, _ = against(accumulated(training(change=changed), parts), accumulated(training(seed=1), parts))
    assert {(departure.site, departure.metric, departure.first_step) for departure in left} == {
        ("head.weight", "update/ratio_to_weight", 30)
    }
    assert common == 30 + WINDOW // 2 + WINDOW + 1  # half a window until it was sure, and one for others


def test_losses_of_runs_that_gather_over_other_numbers_of_micro_steps_are_not_compared() -> None:
    assert against(accumulated(training(seed=1), 4), training())[:2] == ((), STEPS)
    slow = training(change=lambda _, site: 0.1 if site == "body" else 1.0)
    assert {departure.site for departure in against(accumulated(slow, 4), training(seed=1))[0]} == {"body.weight"}


def test_updates_of_a_run_that_has_converged_tell_nothing() -> None:
    def change(step, site):
        return 1.0 if step < 55 else 20.0

    def updates(records):
        for record in records:
            yield replace(record, blocks=record.blocks[1:])

    left, _, _, _ = against(updates(training(range(90), seed=1, change=change)), updates(training(range(90))))
    assert left == ()  # the loss of step 55 is below a fifth of the first
    left, _, _, _ = against(updates(training(seed=1, change=lambda step, site: 20.0)), updates(training()))
    assert {departure.metric for departure in left} == {"update/ratio_to_weight"}
