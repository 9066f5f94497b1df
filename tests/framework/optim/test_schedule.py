"""Learning-rate schedules against closed forms."""

from math import cos, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.framework import optim
from mindscope.framework.optim import ConstantRate, CosineDecay, ExponentialDecay, Piecewise, PolynomialDecay, StepDecay
from mindscope.framework.optim.rate_schedules import rate_at

SCHEDULES = {
    "constant": ConstantRate(0.1, warmup_steps=5),
    "cosine": CosineDecay(0.1, total_steps=100, warmup_steps=10, final=0.01),
    "step": StepDecay(0.1, every=30),
    "exponential": ExponentialDecay(0.1, every=10, factor=0.5),
    "polynomial": PolynomialDecay(0.1, total_steps=80, power=2.0, final=0.001),
    "piecewise": Piecewise((10, 20), (0.1, 0.05, 0.01)),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@given(step=st.integers(0, 10_000))
def test_every_rate_lies_between_zero_and_the_peak(schedule, step):
    assert 0.0 <= schedule(step) <= 0.1 + 1e-15


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_schedule_is_a_pure_function_of_the_step(schedule):
    assert [schedule(s) for s in range(50)] == [schedule(s) for s in reversed(range(50))][::-1]


def test_warm_up_is_linear_and_its_last_step_has_the_full_rate():
    assert [ConstantRate(1.0, warmup_steps=4)(s) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_cosine_follows_its_formula_and_stays_at_the_floor():
    schedule = CosineDecay(1.0, total_steps=20, warmup_steps=10, final=0.2)
    assert schedule(9) == schedule(10) == 1.0
    assert schedule(15) == pytest.approx(0.2 + 0.8 * 0.5 * (1 + cos(pi / 2)))
    assert schedule(20) == schedule(2000) == pytest.approx(0.2)


def test_step_and_exponential_decay_agree_on_the_edges_of_the_stairs():
    stairs, slope = StepDecay(1.0, every=5, factor=0.5), ExponentialDecay(1.0, every=5, factor=0.5)
    assert [stairs(s) for s in (0, 4, 5, 9, 10)] == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert [slope(s) for s in (0, 5, 10)] == [1.0, 0.5, 0.25]
    assert 0.5 < slope(3) < 1.0


def test_a_polynomial_of_power_one_is_a_straight_line():
    schedule = PolynomialDecay(1.0, total_steps=4)
    assert [schedule(s) for s in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_piecewise_changes_at_its_boundaries():
    schedule = SCHEDULES["piecewise"]
    assert [schedule(s) for s in (0, 9, 10, 19, 20, 99)] == [0.1, 0.1, 0.05, 0.05, 0.01, 0.01]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConstantRate(-1.0), "finite rates and factors of zero or more, got -1.0"),
        (lambda: ConstantRate(float("nan")), "got nan"),
        (lambda: CosineDecay(0.1, total_steps=5, warmup_steps=5), "total_steps of at least 6, got 5"),
        (lambda: StepDecay(0.1, every=0), "every of at least 1, got 0"),
        (lambda: Piecewise((5,), (0.1,)), "one rate more than boundaries, got 1 rates and 1"),
        (lambda: Piecewise((5, 5), (0.1, 0.2, 0.3)), "rising boundaries"),
        (lambda: rate_at(lambda step: float("inf"), 3), "learning rate at step 3 is inf"),
    ],
)
def test_impossible_schedules_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_old_name_of_a_constant_rate_still_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="Constant is now ConstantRate"):
        assert optim.Constant is ConstantRate
