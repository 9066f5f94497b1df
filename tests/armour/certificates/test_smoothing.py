"""Smoothing against the published radius, an exact binomial tail, and a linear model whose radius is known."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mindscope.armour import InvalidInput, wrap
from mindscope.armour.certificates import ABSTAIN, certified_smoothing_radius, smooth
from mindscope.armour.certificates.smoothing import lower_confidence

from tests.armour.frameworks import MAKE, inputs, logits
from tests.armour.networks import linear, model


def test_the_published_radius():
    assert certified_smoothing_radius(99_000, 100_000, 1.0, alpha=0.001) == pytest.approx(2.290, abs=5e-4)
    assert certified_smoothing_radius(99_000, 100_000, 0.25) == pytest.approx(0.25 * 2.290, abs=2e-4)
    assert certified_smoothing_radius(50, 100, 1.0) == 0.0


@pytest.mark.parametrize(("successes", "trials"), [(1, 5), (9, 10), (30, 40), (40, 40)])
def test_the_confidence_bound_inverts_the_binomial_tail(successes, trials):
    p = Fraction(lower_confidence(successes, trials, 0.01))
    tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))
    assert float(tail) == pytest.approx(0.01, rel=1e-9)


def test_radii_of_a_linear_model_are_below_and_near_its_distance_to_the_boundary():
    network = linear(features=8)
    normal = (network.weight[:, 0] - network.weight[:, 1]).astype(float)
    x = np.random.default_rng(0).uniform(0, 1, (12, 8)).astype(np.float32)
    distance = np.abs(x @ normal + float(network.bias[0] - network.bias[1])) / np.linalg.norm(normal)
    found = smooth(model(network), x, 0.5, trials=2000)
    told = found.classes != ABSTAIN
    assert (found.radii[told] <= distance[told]).all()
    np.testing.assert_array_equal(found.classes[told], network.logits(x).argmax(axis=1)[told])
    near = told & (distance < 1.0)
    assert near.any()
    assert (found.radii[near] > distance[near] - 0.2).all()
    assert (distance[~told] < 0.2).all()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_any_framework_is_smoothed_and_again_the_same(make):
    x, labels = inputs(3), logits(inputs(3)).argmax(axis=1)
    found = smooth(wrap(make()), x, 0.05, trials=400)
    assert found.accuracy(labels, 0.0) > 0.5
    again = smooth(wrap(make()), x, 0.05, trials=400)
    np.testing.assert_array_equal(found.radii, again.radii)


def test_bad_input_is_named():
    for call, words in (
        (lambda: certified_smoothing_radius(5, 4, 1.0), "successes expects 0 to trials"),
        (lambda: certified_smoothing_radius(1, 4, -1.0), "sigma expects a number above 0"),
        (lambda: smooth(model(linear()), np.zeros(12), 0.1), r"smooth expects samples \(n, ...\)"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
