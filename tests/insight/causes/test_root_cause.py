"""Which of several findings is the cause."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, root_causes
from mindscope.insight.consequences import CONSEQUENCES, NON_FINITE, possible_causes
from mindscope.insight.loss_levels import HALFWAY
from mindscope.insight.recording import chain
from mindscope.insight.root_causes import folded
from mindscope.storage import Finding, ModuleInfo


def finding(cause, step, phase=1, severity="error", site="", position=0):
    rule = cause.replace("_", "-")
    return Finding(rule, cause, severity, step, step, site, "", {}, "", "", order=(0, phase, position))


def causes(*findings):
    return [item.cause for item in root_causes(findings)]


@pytest.mark.parametrize(
    ("site", "evidence", "roots"),
    [
        ("block.attn", {"first_output": 0.0}, ["reshape_error"]),
        ("", {"first_output": 0.0}, ["reshape_error"]),
        ("block.mlp", {"first_output": 0.0}, ["data_leak", "reshape_error"]),
        # the targets are the input
        ("block.attn", {"positions": 8.0}, ["data_leak", "reshape_error"]),
    ],
)
def test_heads_that_are_merged_without_transposing_leak_the_future(site, evidence, roots):
    leak = replace(finding("data_leak", 1, site=site), evidence=evidence)
    merged = finding("reshape_error", 1, severity="warning", site="block.attn")
    assert causes(leak, merged) == roots


def test_what_is_not_finite_explains_everything_later():
    assert causes(
        finding("non_finite_loss", 30, 2),
        finding("non_finite_activation", 30, 1, site="conv2"),
        finding("learning_rate_too_high", 31, 4),
        finding("dead_units", 40),
    ) == ["non_finite_activation"]


def test_a_rate_too_high_explains_the_nan_that_follows_and_not_the_one_before():
    assert causes(finding("learning_rate_too_high", 3, 4), finding("non_finite_activation", 9)) == [
        "learning_rate_too_high"
    ]
    assert causes(finding("learning_rate_too_high", 9, 4), finding("non_finite_activation", 3)) == [
        "non_finite_activation"
    ]


def test_a_missing_zero_grad_comes_before_the_rate_it_seems_to_be():
    assert causes(finding("missing_zero_grad", 30, 0), finding("learning_rate_too_high", 41, 4)) == [
        "missing_zero_grad"
    ]


def test_what_follows_from_a_consequence_follows_from_its_cause() -> None:
    rate, nan, frozen = (
        replace(finding("optimizer_state_stale", 9, 4), confidence=0.9),
        finding("non_finite_loss", 30, 2),
        finding("frozen_parameter", 31, 0, "warning", "fc1"),
    )
    assert causes(rate, frozen) == ["optimizer_state_stale", "frozen_parameter"]
    assert folded([frozen, nan, rate]) == ((rate, (nan, frozen)),)


def test_what_the_run_has_recovered_from_explains_nothing_later_and_comes_behind_it() -> None:
    cold = replace(finding("missing_warmup", 0, 4, "warning"), step=39, confidence=0.7)
    assert causes(cold, finding("attention_logit_growth", 20)) == ["missing_warmup"]
    assert causes(cold, finding("non_finite_loss", 99, 2)) == ["non_finite_loss", "missing_warmup"]


def test_facts_come_before_what_is_only_likely() -> None:
    ascent = replace(finding("wrong_loss_sign", 0, 2), confidence=0.7)
    assert causes(ascent, finding("expert_starvation", 30)) == ["expert_starvation", "wrong_loss_sign"]


def test_unrelated_facts_stand_side_by_side_in_order_of_appearance():
    assert causes(finding("non_finite_activation", 20), finding("frozen_parameter", 0, 0, "warning", "conv1")) == [
        "frozen_parameter",
        "non_finite_activation",
    ]


def test_notices_and_faults_of_the_monitor_are_no_causes():
    assert causes(finding("frozen_parameter", 0, 0, "info"), finding("monitor_fault", 0, 0, "warning")) == []


def test_a_policy_far_from_its_reference_and_a_reward_that_falls_stand_side_by_side():
    assert causes(finding("wrong_loss_sign", 2), finding("kl_blowup", 3)) == ["wrong_loss_sign", "kl_blowup"]


def test_at_most_three_are_named():
    assert len(causes(*(finding("frozen_parameter", at, 0, site=f"m{at}") for at in range(9)))) == 3


def test_of_more_than_three_the_errors_are_named_in_the_order_of_all():
    warnings = [finding("frozen_parameter", at, 0, "warning", f"m{at}") for at in range(3)]
    assert causes(*warnings, finding("loss_input_domain", 5)) == [
        "frozen_parameter",
        "frozen_parameter",
        "loss_input_domain",
    ]


def test_one_thing_that_shows_at_several_sites_is_named_once() -> None:
    frozen = [finding("frozen_parameter", 0, 0, site=f"m{at}", position=at) for at in range(3)]
    assert root_causes(frozen) == (frozen[0],)
    assert causes(*frozen, finding("data_leak", 0)) == ["frozen_parameter", "data_leak"]


def test_harm_is_folded_under_harm_upstream_of_it_and_only_there() -> None:
    model = chain("one:Dense", "relu:ReLU", "two:Dense")
    model = replace(model, modules=(*model.modules, ModuleInfo("aside", "ReLU", 9)))
    first = finding("dead_units", 10, site="relu", position=1)
    after = finding("attention_entropy_collapse", 20, site="two", position=2)
    beside = finding("attention_entropy_collapse", 20, site="aside", position=9)
    assert root_causes([first, after], model) == (first,)
    assert root_causes([first, beside], model) == (first, beside)
    earlier = replace(after, first_step=5)
    assert root_causes([first, earlier], model) == (earlier, first)


def test_harm_of_gradients_is_folded_under_harm_nearer_to_the_loss() -> None:
    model = chain("one:Dense", "two:Dense", "three:Dense")
    late = finding("vanishing_gradient", 10, 3, site="three", position=2)
    early = finding("exploding_gradient", 11, 3, site="one", position=0)
    assert root_causes([late, early], model) == (late,)
    assert root_causes([replace(late, site="one"), replace(early, site="three")], model) == (
        replace(late, site="one"),
        replace(early, site="three"),
    )


def test_what_is_judged_over_a_window_gives_way_to_what_began_in_it() -> None:
    labels = replace(finding("uninformative_labels", 0, 2, "warning"), step=49, confidence=0.6)
    dead = finding("dead_units", 28, site="act")
    assert root_causes([labels, dead]) == (dead,)
    assert root_causes([labels, replace(dead, first_step=60)]) == (labels,)


def test_labels_that_were_wrong_before_explain_parts_that_learn_no_more() -> None:
    labels = replace(finding("uninformative_labels", 1, 2), confidence=0.9)
    frozen, starved = finding("frozen_parameter", 40, 0, site="one"), finding("expert_starvation", 50, site="two")
    assert root_causes([labels, frozen, starved]) == (labels,)
    assert root_causes([labels, replace(frozen, first_step=0)]) == (replace(frozen, first_step=0),)
    same_step = replace(frozen, first_step=1)
    assert same_step in root_causes([labels, same_step])
    judged_by_the_loss = replace(labels, confidence=0.7, first_step=0, step=45)
    assert causes(judged_by_the_loss, frozen)[0] == "frozen_parameter"
    assert causes(judged_by_the_loss, starved) == ["uninformative_labels"]


def test_a_wrong_sign_explains_what_dies_of_it() -> None:
    sign, frozen = replace(finding("wrong_loss_sign", 1, 2), confidence=0.8), finding("frozen_parameter", 94, 0)
    assert root_causes([sign, frozen]) == (sign,)
    assert causes(sign, replace(frozen, first_step=0)) == ["frozen_parameter", "wrong_loss_sign"]


def test_a_rank_that_waits_for_its_data_alone_is_the_slow_one() -> None:
    waiting = replace(finding("dataloader_bound", 10, 1, "warning"), rank=1)
    slow = replace(finding("straggler", 11, 3, "warning"), rank=1)
    assert root_causes([waiting, slow]) == (slow,)
    assert root_causes([replace(waiting, rank=0), slow]) == (replace(waiting, rank=0), slow)


def test_the_same_finding_on_another_rank_follows_the_first():
    spike = finding("loss_spike", 5)
    other = Finding(**{name: getattr(spike, name) for name in spike.__slots__} | {"rank": 1})
    assert root_causes([other, spike]) == (spike,)


def test_one_thing_that_begins_on_two_ranks_is_named_once() -> None:
    here = finding("expert_starvation", 5, site="experts.1")
    there = replace(here, rank=1, site="experts.6")
    assert root_causes([there, here]) == (here,)
    assert root_causes([replace(there, first_step=9), here]) == (here, replace(there, first_step=9))


def test_a_word_of_last_resort_gives_way_to_any_cause_that_was_found_before_it_was_said():
    late = replace(finding("unknown", 30, 4, "warning"), step=60)
    assert causes(late, finding("frozen_parameter", 40, 0, "warning")) == ["frozen_parameter"]
    assert causes(late, finding("dataloader_bound", 10, 1, "warning")) == ["unknown", "dataloader_bound"]
    assert causes(late) == ["unknown"]


def test_no_cause_is_its_own_consequence_and_every_word_is_of_the_vocabulary():
    known = {item.cause for item in RULES.values()}
    for cause, effects in CONSEQUENCES.items():
        unknown = sorted({cause, *effects} - known)
        assert not unknown, f"CONSEQUENCES in insight/root_causes.py names causes that no rule has: {unknown}"
    assert not [cause for cause in known if cause in possible_causes(cause)]


def test_what_has_to_be_ruled_out_are_the_causes_that_it_may_follow_from():
    assert "schedule_error" in possible_causes("learning_rate_too_high")
    assert "learning_rate_too_high" in possible_causes("non_finite_loss")
    routers = {"expert_starvation", "router_collapse"}
    flat = {"dead_units", "saturated_activation", "vanishing_gradient"}
    others = {"missing_optimizer_step", "learning_rate_too_high", "bad_initialization", "uninformative_labels"}
    others |= {"wrong_loss_sign"}
    assert set(possible_causes("frozen_parameter")) == {*flat, *others, *routers, *NON_FINITE}


def test_what_is_judged_over_a_window_gives_way_to_a_cause_that_began_before_it_closed():
    labels = replace(finding("uninformative_labels", 0, 2, "warning"), step=40, confidence=0.6)
    assert causes(labels, finding("learning_rate_too_high", 12, 4)) == ["learning_rate_too_high"]
    assert causes(labels, replace(finding("learning_rate_too_high", 50, 4), confidence=0.9)) == [
        "uninformative_labels",
        "learning_rate_too_high",
    ]


def of_rank(cause, rank, step=7, **evidence):
    return replace(finding(cause, step), rank=rank, evidence=evidence)


def test_a_lost_connection_follows_from_the_hang_whoever_was_heard_first():
    lost = of_rank("program_error", 0, step=6, lost_connection=1)
    also = of_rank("program_error", 2, lost_connection=1)
    hang = of_rank("hang", 1, step=8)
    assert [(root.cause, root.rank) for root in root_causes([lost, also, hang])] == [("hang", 1)]
    assert [(root.cause, root.rank) for root in root_causes([lost, also])] == [("program_error", 0)]


def test_the_error_of_one_rank_explains_that_others_lost_it_and_their_hang():
    lost, own = of_rank("program_error", 0, lost_connection=1), of_rank("program_error", 1)
    assert [root.rank for root in root_causes([lost, own, of_rank("hang", 1)])] == [1]
    assert [root.cause for root in root_causes([lost, own, of_rank("hang", 1)])] == ["program_error"]
    assert [root.cause for root in root_causes([lost, of_rank("out_of_memory", 1)])] == ["out_of_memory"]


def test_a_process_that_its_backend_ended_follows_from_the_hang_of_another_rank():
    assert causes(of_rank("process_killed", 0, step=6), of_rank("hang", 1)) == ["hang"]


def test_what_ended_the_run_comes_before_what_a_threshold_says():
    end = replace(finding("program_error", 90), confidence=0.55)
    guessed = replace(finding("uninformative_labels", 0, severity="warning"), confidence=0.4)
    assert causes(guessed, end) == ["program_error", "uninformative_labels"]
    assert causes(guessed, of_rank("hang", 1, step=90)) == ["hang", "uninformative_labels"]


def test_a_loss_without_a_floor_explains_the_gradients_that_grow_with_it():
    fall = replace(finding("wrong_loss_sign", 0, 2), step=70, confidence=0.7)
    growth = finding("exploding_gradient", 25)
    assert causes(fall, growth) == ["exploding_gradient"]  # a loss that rises, for all that is known
    fall = replace(fall, evidence={HALFWAY: -1e9})
    assert causes(fall, growth) == ["wrong_loss_sign"]
    assert causes(fall, replace(finding("bad_batch", 0), step=0)) == ["bad_batch"]


def test_a_loss_that_steps_raise_explains_what_grows_before_the_pass_that_shows_it():
    uphill = replace(finding("wrong_loss_sign", 1, 2), confidence=0.8)
    growth = finding("learning_rate_too_high", 0)
    assert causes(uphill, growth) == ["learning_rate_too_high"]
    assert causes(replace(uphill, evidence={"slope": -1.0, "value": 9.0}), growth) == ["wrong_loss_sign"]


@pytest.mark.parametrize("metric", ["batch/nans", "batch/pos_infs"])
def test_a_batch_that_is_not_finite_follows_from_nothing_and_comes_before_trends(metric):
    uphill = replace(finding("wrong_loss_sign", 0, 2), confidence=0.8)
    batch = replace(finding("bad_batch", 60, 0), metric=metric, confidence=0.9)
    activation = finding("non_finite_activation", 60, 1, site="fc1")
    assert causes(uphill, batch, activation) == ["bad_batch", "wrong_loss_sign"]
    families = {
        root.cause: [item.cause for item in following] for root, following in folded((uphill, batch, activation))
    }
    assert families == {"wrong_loss_sign": [], "bad_batch": ["non_finite_activation"]}


def test_an_outlier_of_a_batch_may_follow_from_a_loss_that_rises():
    uphill = replace(finding("wrong_loss_sign", 0, 2), confidence=0.8)
    assert causes(uphill, replace(finding("bad_batch", 60, 0), metric="scalar/loss")) == ["wrong_loss_sign"]


@pytest.mark.parametrize(
    "effect", ["missing_optimizer_step", "missing_zero_grad", "shared_parameter_error", "wrong_train_eval_mode"]
)
def test_an_optimizer_of_other_parameters_explains_what_it_neither_steps_nor_clears_whichever_was_found_first(effect):
    outside = finding("parameter_not_in_optimizer", 25, severity="warning", site="head")
    assert causes(finding(effect, 1), outside) == ["parameter_not_in_optimizer"]
    assert set(causes(replace(finding(effect, 1), rank=1), outside)) == {effect, "parameter_not_in_optimizer"}


def test_steps_that_epsilon_makes_small_explain_a_model_that_has_learned_nothing():
    assert causes(finding("optimizer_state_stale", 24), finding("uninformative_labels", 60)) == [
        "optimizer_state_stale"
    ]
