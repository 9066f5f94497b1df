"""What every registered attack promises, in every norm that it knows; a new one is tested because it is registered."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mindscope import armour
from mindscope.armour.attack_catalogue import attacks_page
from mindscope.armour.attacks import __all__ as catalogued

from tests.armour.attacks.cases import CASES, light
from tests.armour.networks import ClosedForm, data, linear, model, perceptron

EVERYTHING = bool(os.environ.get("MINDSCOPE_TEST_ALL"))
BY_GRADIENTS = [(name, norm) for name, norm in CASES if armour.ATTACKS[name].asks == "gradients"]
#: One step from a random place, or along gradients of inputs changed at random, need not meet the nearest side.
INEXACT = {"r-fgsm", "fast-fgsm", "di-fgsm"}
#: Where the light options are too coarse to be exact.
FINE = {"ead": {"searches": 9}}

ORDERS = {"linf": np.inf, "l2": 2, "l1": 1, "l0": 0}
DUALS = {"linf": 1, "l2": 2, "l1": np.inf}
#: Budgets that fool many inputs of 12 elements, and in which nearly all can be brought to any class.
SOME_BUDGET = {"linf": 0.2, "l2": 0.5, "l1": 1.5, "l0": 3.0}
LARGE_BUDGET = {"linf": 0.5, "l2": 2.0, "l1": 5.0, "l0": 12.0}


def each(cases):
    """The test for each of these attacks and norms."""
    return pytest.mark.parametrize(("name", "norm"), cases, ids=[f"{name}-{norm}" for name, norm in cases])


def distances(norm, x, adversarials):
    """The distances once more, in the slowest way."""
    order = ORDERS[norm]
    return np.array(
        [
            [np.linalg.norm((b.astype(float) - a.astype(float)).ravel(), order) for a, b in zip(x, row, strict=True)]
            for row in adversarials
        ]
    )


@each(CASES)
@settings(max_examples=15 if EVERYTHING else 6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    epsilon=st.one_of(st.floats(1e-9, 20.0), st.sampled_from([0.1, 0.3, 1 / 3, 8 / 255])),
    seed=st.integers(0, 2**31),
    touches_box=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_no_example_is_ever_outside_its_budget_or_the_box(name, norm, epsilon, seed, touches_box, dtype):
    network = perceptron()
    x, y = data(network, 20, (3, 4), seed, dtype=dtype)
    x = np.round(x) if touches_box else x
    result = light(name, norm)(model(network), x, y, epsilons=epsilon, seed=seed)
    assert result.adversarials.min() >= 0
    assert result.adversarials.max() <= 1
    assert (distances(norm, x, result.adversarials) <= epsilon).all()
    assert result.adversarials.dtype == dtype


@each(CASES)
def test_the_same_seed_gives_the_same_bits_and_inputs_are_not_changed(name, norm):
    network = perceptron()
    x, y = data(network, 30)
    before = x.copy(), y.copy()
    first, again = (
        light(name, norm)(model(network), x, y, epsilons=[0.0, SOME_BUDGET[norm]], seed=7) for _ in range(2)
    )
    np.testing.assert_array_equal(first.adversarials, again.adversarials)
    np.testing.assert_array_equal(first.success, again.success)
    np.testing.assert_array_equal(before[0], x)
    np.testing.assert_array_equal(before[1], y)
    np.testing.assert_array_equal(first.adversarials[0], x)  # a budget of zero costs nothing
    assert not first.success[0].any()
    assert not first.queries[0].any()


@each([(name, norm) for name, norm in BY_GRADIENTS if norm != "l0" and name not in INEXACT])
def test_robust_accuracy_of_a_linear_model_is_exact(name, norm):
    """A margin of |w.x + b| over the dual norm of w: no attack can do better, and these do as well."""
    network = linear()
    x, y = data(network, 300, low=0.3, high=0.7, dtype=np.float64)
    weight = (network.weight[:, 0] - network.weight[:, 1]).astype(float)
    margin = np.abs(x @ weight + network.bias[0] - network.bias[1]) / np.linalg.norm(weight, DUALS[norm])
    epsilons = np.quantile(margin, [0.1, 0.5, 0.8]) + 1e-9  # between samples, and inside the box: 0.3 away at least
    assert epsilons[-1] < 0.3
    result = light(name, norm, **FINE.get(name, {}))(model(network), x, y, epsilons=epsilons)
    exact = [(margin > epsilon).mean() for epsilon in epsilons]
    np.testing.assert_allclose(result.robust_accuracy, exact, atol=1e-12)


@each(CASES)
def test_targets_are_reached_when_the_budget_allows(name, norm):
    network = linear(classes=3)
    x, y = data(network, low=0.4, high=0.6)
    targets = (y + 1) % 3
    result = light(name, norm)(model(network), x, y, targets=targets, epsilons=[LARGE_BUDGET[norm]])
    reached = network.logits(result.adversarials[0]).argmax(axis=1) == targets
    np.testing.assert_array_equal(reached, result.success[0])
    assert reached.mean() > 0.9 or name == "spatial"  # which tries a few turns and shifts, wherever they lead


@each(CASES)
def test_a_margin_asks_for_confident_examples(name, norm):
    network = linear(classes=3)
    x, y = data(network, low=0.4, high=0.6)
    result = light(name, norm)(model(network), x, y, epsilons=[LARGE_BUDGET[norm]], margin=0.5)
    logits = network.logits(result.adversarials[0])[result.success[0]]
    own = y[result.success[0]]
    lead = np.delete(logits.ravel(), np.arange(len(own)) * 3 + own).reshape(-1, 2).max(axis=1)
    assert len(own) > 10
    assert (lead - logits[np.arange(len(own)), own] >= 0.5).all()


@each(CASES)
def test_huge_logits_do_not_look_robust(name, norm):
    network = perceptron()
    x, y = data(network, 80)
    loud = ClosedForm(network.weight * 1e4, network.bias * 1e4, network.hidden)
    attack = light(name, norm)
    calm, shouted = (
        attack(model(each), x, y, epsilons=[SOME_BUDGET[norm]]).robust_accuracy[0] for each in (network, loud)
    )
    assert calm < 0.8
    assert shouted < calm + 0.05


@each(BY_GRADIENTS)
def test_a_broken_gradient_ends_no_attack(name, norm):
    network = perceptron()
    x, y = data(network)
    sound = network.pullback

    def broken(x, cotangent):
        logits, gradient = sound(x, cotangent)
        gradient[x[:, 0] > 0.5] = np.nan
        return logits, gradient

    network.pullback = broken
    result = light(name, norm)(model(network), x, y, epsilons=[SOME_BUDGET[norm]])
    assert np.isfinite(result.adversarials).all()
    assert result.success.any()


@pytest.mark.parametrize("entry", armour.ATTACKS.values(), ids=armour.ATTACKS)
def test_every_entry_names_its_paper_and_says_what_it_does(entry):
    assert re.search(r"arXiv:|doi:", entry.reference)
    assert len((entry.make.__doc__ or "").splitlines()[0]) > 20
    assert entry.make.__name__ in catalogued
    assert set(entry.norms) <= set(armour.DISTANCES)


def test_the_page_of_the_catalogue_is_current():
    page = Path(armour.__file__).parents[1] / "docs" / "catalogue" / "attacks.md"
    assert page.read_text(encoding="utf-8") == attacks_page(), "run: python -m mindscope.armour.attack_catalogue"
