"""What a rule asks instead of saying: where training itself may have done what a fault would do."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.indicators.executable_checks import refuting_event
from mindscope.insight.recording import chain
from mindscope.insight.verdict import is_question
from mindscope.storage import Event, Finding, OptimizerInfo, Structure
from mindscope.storage.training_kinds import TrainingKind

_FALLING = tuple(2.3 * 0.96**step + 0.01 * (-1) ** step for step in range(40))
_JUMP = {
    "scalar/loss": (*_FALLING, 3.0, 2.9, 2.8, 2.8),
    "one activation/l2_norm": 8.0,
    "one.weight update/ratio_to_weight": 0.01,
}


def findings_of(rule: str, series: dict[str, object], model: Structure, *events: Event) -> tuple[Finding, ...]:
    engine = Engine({rule: RULES[rule]})
    engine.learn_structure(model)
    for record in Recording(series, model, events).records():  # type: ignore[arg-type]
        engine.observe(record)
    return engine.findings


def test_a_tanh_that_was_flat_from_the_start_is_a_warning_and_one_that_became_so_a_question() -> None:
    model = chain("one:Dense", "act:Tanh", "two:Dense")
    (said,) = findings_of("saturated-activation", {"act activation/l2_norm": (7.99,) * 12}, model)
    (asked,) = findings_of("saturated-activation", {"act activation/l2_norm": (5.0,) * 12 + (7.99,) * 12}, model)
    assert said.severity == "warning"
    assert is_question(asked)


def test_a_jump_of_one_known_loss_is_a_warning_and_of_a_sum_of_terms_a_question() -> None:
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "mse_loss", "domain": "any", "columns": 1})
    terms = tuple(Event("accumulation", at, data={"factor": 1 + at / 5}) for at in (0, 1, 2))
    (said,) = findings_of("uninformative-labels", _JUMP, model, called)
    (asked,) = findings_of("uninformative-labels", _JUMP, model, called, *terms)
    assert said.severity == "warning"
    assert is_question(asked)


def test_a_jump_of_an_actors_loss_which_its_critic_moves_is_a_question() -> None:
    learners = Event("learners", 0, data={"learners": [{"name": "actor"}, {"name": "critic"}]})
    series = {**_JUMP, "scalar/actor/loss": _JUMP["scalar/loss"], "scalar/critic/loss": _FALLING + (0.4,) * 4}
    found = findings_of("uninformative-labels", series, chain("one:Dense", "two:Dense"), learners)
    assert [(one.metric, is_question(one)) for one in found] == [("scalar/actor/loss", True)]


def test_a_loss_that_leaves_the_entropy_of_its_labels_late_withdraws_the_finding() -> None:
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
    standing = tuple(2.31 + 0.02 * (-1) ** step for step in range(60))
    series = {"one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1}
    (said,) = findings_of("uninformative-labels", {"scalar/loss": standing, **series}, model, called)
    assert is_question(said)
    ends = Event("resume_point", 59, data={"reason": "close"})
    (said,) = findings_of("uninformative-labels", {"scalar/loss": standing, **series}, model, called, ends)
    assert (said.severity, said.first_step, said.explanation[-26:]) == ("warning", 0, ", until the training ended")
    (said,) = findings_of("uninformative-labels", {"scalar/loss": standing * 3, **series}, model, called)
    assert said.severity == "warning"
    late = (*standing, *(2.3 * 0.97**step for step in range(60)))
    (withdrawn,) = findings_of("uninformative-labels", {"scalar/loss": late, **series}, model, called)
    assert (withdrawn.severity, withdrawn.confidence, withdrawn.first_step) == ("info", 0.1, said.first_step)
    assert not is_question(withdrawn)


def test_a_sum_of_terms_that_passes_the_entropy_of_the_labels_of_one_is_left_alone() -> None:
    model = chain("one:Dense", "two:Dense")
    series = {"one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1}
    falling = (*(2.3 + 14 * 0.85**step for step in range(40)), *(2.31 + 0.02 * (-1) ** step for step in range(40)))
    terms = Event("accumulation", 1, data={"factor": None, "micro_batches": 1, "terms": 1})
    losses = [Event("loss_input", 0, data={"loss": loss, "columns": 10}) for loss in ("cross_entropy", "kl_div")]
    for late in ((), (2.31 * 0.97**step for step in range(80))):
        summed = {"scalar/loss": (*falling, *late), **series}
        assert findings_of("uninformative-labels", summed, model, *losses[:1])
        assert not findings_of("uninformative-labels", summed, model, *losses, terms)
        assert not findings_of("uninformative-labels", summed, model, losses[0], terms)


def test_a_loss_that_falls_slowly_is_judged_by_steps_and_not_by_their_micro_steps() -> None:
    """Eight micro-batches a step: what they differ by hides in three steps what twenty-four show."""
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})

    def found(fall: float) -> tuple[Finding, ...]:
        series = {"scalar/loss": 2.3, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1}
        engine = Engine({"uninformative-labels": RULES["uninformative-labels"]})
        engine.learn_structure(model)
        for record in Recording(series, model, (called,), steps=60).records():
            for part in range(8):
                loss = 2.3 - fall * record.step + 0.008 * part  # the last micro-batches are the harder ones
                blocks = record.blocks if part == 7 else ()
                engine.observe(replace(record, micro_step=part, blocks=blocks, scalars={"loss": loss}))
        return engine.findings

    assert found(fall=0.001) == ()
    assert [finding.rule for finding in found(fall=0.0)] == ["uninformative-labels"]


def test_a_copy_that_stays_is_told_where_all_optimizers_step_and_asked_where_those_of_a_phase_before_rest() -> None:
    model = replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam"), OptimizerInfo("Adam")))
    stays = refuting_event("copy_follows_its_network", "target has not moved since it was first seen", never=1.0)
    (said,) = findings_of("stale-target", {"scalar/loss": 1.0}, model, stays)
    (asked,) = findings_of("stale-target", {"scalar/loss": 1.0, "scalar/learner/stepped": 2.0}, model, stays)
    assert said.severity == "warning"
    assert asked.severity == "info"


def test_a_loss_of_single_samples_is_judged_after_many_more_of_them_and_not_while_it_falls() -> None:
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "nll_loss", "domain": "log_probabilities", "columns": 18})
    series = {"one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1}

    def said(labels: float, slope: float, steps: int) -> list[str]:
        losses = tuple(2.89 + slope * step + 0.3 * (-1) ** step for step in range(steps))
        found = findings_of(
            "uninformative-labels",
            {"scalar/loss": losses, "scalar/target/own_counted": labels, **series},
            model,
            called,
        )
        return [one.severity for one in found]

    assert said(64.0, 0.0, 200) == ["warning"]
    assert said(1.0, 0.0, 200) == []
    assert said(1.0, 0.0, 2100) == ["warning"]
    assert said(1.0, -2e-5, 2100) == []  # by 4 % over all, which no two dozen of them show


def test_targets_that_fit_no_better_are_not_blamed_where_the_whole_loss_knows_them() -> None:
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "mse_loss", "domain": "any", "columns": 1})
    series = {"scalar/loss": (1.0,) * 60, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1}
    unbound = replace(refuting_event("targets_fit_their_predictions", "as well as their own", best=0.1), step=40)

    def looks(score: float) -> list[Event]:
        data = {"loss": 1.0, "exchanged": 1.0 + score * 0.05, "spread": 0.05, "samples": 32}
        return [Event("exchange", step, data=data) for step in (10, 14, 20, 30)]

    assert [one.severity for one in findings_of("uninformative-labels", series, model, called, *looks(0.1), unbound)]
    assert not findings_of("uninformative-labels", series, model, called, *looks(2.2), unbound)


def test_a_lucky_first_batch_is_no_progress_that_was_lost() -> None:
    model = chain("one:Dense", "two:Dense")
    called = Event("loss_input", 0, data={"loss": "mse_loss", "domain": "any", "columns": 1})
    first = (0.8, 0.82, 0.7, 0.72, 0.81, 0.62, 0.6, 0.61)
    noisy = tuple(0.98 + 0.13 * (-1) ** step for step in range(40))
    lost = tuple(0.98 + 0.01 * (-1) ** step for step in range(40))
    assert not findings_of("unknown", {"scalar/loss": (*first, *noisy)}, model, called)
    assert findings_of("unknown", {"scalar/loss": (*first, *lost)}, model, called)


def test_a_process_that_was_asked_to_end_is_no_error_wherever_it_was() -> None:
    for signal, severity in (("SIGTERM in backward", "info"), ("SIGTERM", "info"), ("Aborted in backward", "error")):
        event = Event("process_killed", 0, data={"signal": signal})
        (found,) = findings_of("process-killed", {}, chain("one:Dense"), event)
        assert found.severity == severity


def test_a_rate_that_was_only_slow_at_first_is_withdrawn_when_the_loss_falls() -> None:
    model = chain("one:Dense", "two:Dense")
    series = {"one.weight update/ratio_to_weight": 1e-4, "one.weight gradient/l2_norm": 1.0}
    series["scalar/target/entropy"] = 2.3026
    series["scalar/learning_rate"] = 0.02
    called = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
    slow = tuple(2.303 - 1e-5 * step for step in range(200))
    falls = tuple(2.3 - 0.005 * step for step in range(200))
    (said,) = findings_of("learning-rate-too-low", {"scalar/loss": slow, **series}, model, called)
    (taken,) = findings_of("learning-rate-too-low", {"scalar/loss": (*slow, *falls), **series}, model, called)
    assert (said.severity, taken.severity) == ("warning", "info")
    assert "the beginning was slow" in taken.explanation


def _fit(kind: str, loss: str) -> tuple[Finding, ...]:
    told = Event("training_kind", 0, data=TrainingKind(kind).to_data())
    unfit = refuting_event("targets_fit_their_predictions", "they fit as well", occasion=5)
    unfit = replace(unfit, step=50, data={**unfit.data, "subject": loss})
    series = {"scalar/loss": (1.0,) * 60, "one.weight update/ratio_to_weight": 0.02}
    return findings_of("uninformative-labels", series, chain("one:Dense"), told, unfit)


@pytest.mark.parametrize(("loss", "severity"), [("mse_loss", "info"), ("cross_entropy", "warning")])
def test_a_term_beside_the_loss_of_classes_that_learns_nothing_is_a_question(loss: str, severity: str) -> None:
    assert [found.severity for found in _fit("classification", loss)] == [severity]


def test_a_loss_that_leaves_its_first_value_withdraws_the_finding() -> None:
    batches = tuple(float(step) for step in range(70))
    standing = {"scalar/loss": (0.1,) * 70, "scalar/batch/checksum": batches}
    moving = {"scalar/loss": (0.1,) * 30 + (0.03,) * 40, "scalar/batch/checksum": batches}
    (said,) = findings_of("constant-loss", standing, chain("one:Dense"))
    (gone,) = findings_of("constant-loss", moving, chain("one:Dense"))
    assert (said.severity, gone.severity) == ("error", "info")
    assert gone.explanation == "the loss stood at 0.1 at first, and is 0.03 by step 49"


def test_an_output_that_fires_again_withdraws_the_finding() -> None:
    model = chain("one:Dense", "relu:ReLU", "two:Dense")
    silent = {"relu activation/zeros": (64,) * 40, "relu activation/min": 0, "relu activation/max": 0}
    waking = {**silent, "relu activation/zeros": (64,) * 15 + (30,) * 25}
    (said,) = findings_of("dead-units", silent, model)
    (gone,) = findings_of("dead-units", waking, model)
    assert (said.severity, gone.severity) == ("error", "info")
    assert gone.explanation.startswith("relu put out zeros only from step 0 on, and fires since step 24, or before")


def test_a_part_of_the_last_numbered_block_that_nothing_follows_is_a_question() -> None:
    for name, is_asked in (("gcl_2.node", True), ("gcl_1.node", False)):
        sites = [f"gcl_{number}.{part}" for number in range(3) for part in ("edge", "node")]
        series = {f"{site}.weight gradient/l2_norm": 0.0 if site == name else 1.0 for site in sites}
        model = chain(*(f"{site}:Dense" for site in sites))
        (found,) = findings_of("frozen-parameter", {one: (value,) * 20 for one, value in series.items()}, model)
        assert (found.site, is_question(found)) == (name, is_asked)


@pytest.mark.parametrize(("values", "leftovers", "is_asked"), [(2, 2, True), (2, 1, False)])
def test_leftovers_that_nothing_reads_are_a_question(values: int, leftovers: int, is_asked: bool) -> None:
    event = refuting_event("values_are_read", "beta, a setting, is read by nothing", values=values, leftovers=leftovers)
    (found,) = findings_of("unused-value", {"scalar/loss": 1.0}, chain("one:Dense", "two:Dense"), event)
    assert is_question(found) == is_asked


@pytest.mark.parametrize(("subject", "is_asked"), [("x", False), ("x[1]", True)])
def test_an_unused_tensor_beside_others_is_a_question(subject: str, is_asked: bool) -> None:
    both = (refuting_event("input_is_used", "with other values the output is the same", occasion=at) for at in (1, 2))
    events = [replace(event, step=at, data={**event.data, "subject": subject}) for at, event in enumerate(both)]
    (found,) = findings_of("ignored-input", {"scalar/loss": (1.0, 0.9)}, chain("one:Dense", "two:Dense"), *events)
    assert is_question(found) == is_asked


@pytest.mark.parametrize(("name", "is_asked"), [("agent.policy_old", False), ("agent.reference", True)])
def test_an_old_policy_that_never_becomes_newer_is_a_warning_and_a_reference_a_question(name: str, is_asked: bool):
    kind = Event("training_kind", 0, data={"name": "policy"})
    event = refuting_event("copy_follows_its_network", "it has not moved in 2294 steps", never=1.0, ended=1.0)
    event = replace(event, data={**event.data, "subject": name})
    (found,) = findings_of("stale-target", {"scalar/loss": 1.0}, chain("one:Dense", "two:Dense"), kind, event)
    assert is_question(found) == is_asked
