"""MindSpore's learning rates: closed forms at chosen steps, lists and schedules against each other."""

import math

import pytest
from mindscope.framework.nn import learning_rates

SCHEDULES = {
    "exponential": (lambda s: learning_rates.ExponentialDecayLR(0.1, 0.9, 4, s), lambda p, e: 0.1 * 0.9**p),
    "natural": (
        lambda s: learning_rates.NaturalExpDecayLR(0.1, 0.9, 4, s),
        lambda p, e: 0.1 * math.exp(-0.9 * e),
    ),
    "inverse": (lambda s: learning_rates.InverseDecayLR(0.1, 0.5, 4, s), lambda p, e: 0.1 / (1 + 0.5 * p)),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("is_stair", [False, True])
def test_decays_follow_their_formula_at_every_step(name, is_stair):
    make, formula = SCHEDULES[name]
    for step in range(12):
        counted = step // 4 * 4 if is_stair else step
        assert make(is_stair)(step) == pytest.approx(formula(counted / 4, counted), rel=1e-12)


def test_a_cosine_ends_at_the_least_rate_and_is_halfway_in_the_middle():
    schedule = learning_rates.CosineDecayLR(0.01, 0.1, 4)
    assert [schedule(s) for s in (0, 2, 4, 9)] == pytest.approx([0.1, 0.055, 0.01, 0.01])
    with pytest.raises(ValueError, match="min_lr below max_lr"):
        learning_rates.CosineDecayLR(0.1, 0.1, 4)


def test_a_polynomial_starts_again_when_asked_to():
    plain = learning_rates.PolynomialDecayLR(0.1, 0.01, 4, 0.5)
    again = learning_rates.PolynomialDecayLR(0.1, 0.01, 4, 0.5, update_decay_steps=True)
    assert [plain(s) for s in (0, 2, 4, 6)] == pytest.approx([0.1, 0.09 * 0.5**0.5 + 0.01, 0.01, 0.01])
    assert [again(s) for s in (4, 6)] == pytest.approx([0.01, 0.09 * 0.25**0.5 + 0.01])


def test_a_warm_up_rises_in_a_straight_line():
    schedule = learning_rates.WarmUpLR(0.1, 2)
    assert [schedule(s) for s in range(4)] == pytest.approx([0.0, 0.05, 0.1, 0.1])


@pytest.mark.parametrize(
    ("rates", "schedule"),
    [
        (learning_rates.exponential_decay_lr(0.1, 0.9, 9, 3, 2), learning_rates.ExponentialDecayLR(0.1, 0.9, 2)),
        (learning_rates.natural_exp_decay_lr(0.1, 0.9, 9, 3, 2), learning_rates.NaturalExpDecayLR(0.1, 0.9, 2)),
        (
            learning_rates.inverse_decay_lr(0.1, 0.9, 9, 3, 2, True),
            learning_rates.InverseDecayLR(0.1, 0.9, 2, True),
        ),
        (learning_rates.cosine_decay_lr(0.01, 0.1, 9, 3, 2), learning_rates.CosineDecayLR(0.01, 0.1, 2)),
        (
            learning_rates.polynomial_decay_lr(0.1, 0.01, 9, 3, 2, 2.0, True),
            learning_rates.PolynomialDecayLR(0.1, 0.01, 2, 2.0, True),
        ),
        (learning_rates.warmup_lr(0.1, 9, 3, 2), learning_rates.WarmUpLR(0.1, 2)),
    ],
    ids=["exponential", "natural", "inverse", "cosine", "polynomial", "warmup"],
)
def test_a_list_holds_the_rates_of_its_schedule_epoch_by_epoch(rates, schedule):
    assert rates == pytest.approx([schedule(step // 3) for step in range(9)])


def test_a_piecewise_list_changes_at_its_milestones():
    assert learning_rates.piecewise_constant_lr([2, 5], [0.1, 0.05]) == [0.1, 0.1, 0.05, 0.05, 0.05]
    with pytest.raises(ValueError, match="rising milestones"):
        learning_rates.piecewise_constant_lr([5, 2], [0.1, 0.05])
    with pytest.raises(ValueError, match="as many milestones as rates"):
        learning_rates.piecewise_constant_lr([5], [0.1, 0.05])


def test_a_rate_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="finite rates"):
        learning_rates.warmup_lr(float("nan"), 4, 2, 1)
    with pytest.raises(ValueError, match="decay_steps of at least 1, got 0"):
        learning_rates.InverseDecayLR(0.1, 0.5, 0)
