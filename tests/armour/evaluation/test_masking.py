"""Masked models get the verdict that names the cause; a clean one gets none."""

import numpy as np
import pytest
from mindscope.armour import evaluate

from tests.armour.networks import ClosedForm, data, model, perceptron


class Quantised(ClosedForm):
    """Inputs rounded to eight levels, whose true gradient is zero."""

    def pullback(self, x, cotangent):
        logits, gradient = super().pullback(np.round(x * 8) / 8, cotangent)
        return logits, np.zeros_like(gradient)


class Stochastic(ClosedForm):
    """Noise on the hidden units at every call."""

    generator = np.random.default_rng(0)

    def pullback(self, x, cotangent):
        return super().pullback(x + self.generator.normal(0, 0.1, x.shape).astype(x.dtype), cotangent)


def names(network, **options):
    clean = perceptron()
    x, y = data(clean, 100)
    return {symptom.name for symptom in evaluate(model(network), x, y, [0.1, 0.2], **options).masking}


def test_a_clean_model_gets_no_verdict():
    assert names(perceptron()) == set()
    assert names(perceptron(), norm="l2") == set()


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda c: ClosedForm(c.weight * 1000, c.bias * 1000, c.hidden), "logit-scale"),
        (lambda c: Quantised(c.weight, c.bias, c.hidden), "zero-gradient"),
    ],
    ids=["loud", "quantised"],
)
def test_a_masked_model_is_told_why(make, cause):
    assert cause in names(make(perceptron()))


def test_a_random_model_is_named_only_where_no_attack_averages_it():
    clean = perceptron()
    network = Stochastic(clean.weight, clean.bias, clean.hidden)
    assert "randomness" in names(network, draws=1)
    assert "randomness" not in names(network, attacks=["fgsm"])


def test_attacks_without_gradients_that_win_are_told():
    clean = perceptron()
    found = names(Quantised(clean.weight, clean.bias, clean.hidden), attacks=["pgd", "square"])
    assert {"black-box-stronger", "unbounded-attack", "flat-loss"} <= found


def test_the_standard_suite_hands_on_only_what_is_left_and_repeats_bit_by_bit():
    network = perceptron()
    x, y = data(network, 25)
    first, again = (evaluate(model(network), x, y, [0.05, 0.2], suite="standard") for _ in range(2))
    assert repr(first) == repr(again)
    assert first.attacks == ("apgd-ce", "apgd-t", "fab-t", "square", "worst-case")
    for epsilon in (0.05, 0.2):
        left = [first.accuracy(attack)[epsilon] for attack in first.attacks]
        assert left == sorted(left, reverse=True)
        assert left[-1] == left[-2]
