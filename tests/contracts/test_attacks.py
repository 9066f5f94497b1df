"""What every registered attack promises, in every norm that it knows; a new one is tested because it is registered."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mindscope import armour
from mindscope.armour.attacks import __all__ as catalogued
from mindscope.armour.catalogue import attacks_page

from tests.armour.networks import ClosedForm, data, linear, model, perceptron

CASES = [(entry, norm) for entry in armour.ATTACKS.values() for norm in entry.norms]
each_attack = pytest.mark.parametrize(("entry", "norm"), CASES, ids=[f"{entry.name}-{norm}" for entry, norm in CASES])

BY_GRADIENTS = [(entry, norm) for entry, norm in CASES if entry.asks == "gradients"]
each_gradient_attack = pytest.mark.parametrize(
    ("entry", "norm"), BY_GRADIENTS, ids=[f"{entry.name}-{norm}" for entry, norm in BY_GRADIENTS]
)

ORDERS = {"linf": np.inf, "l2": 2, "l1": 1, "l0": 0}
DUALS = {"linf": 1, "l2": 2, "l1": np.inf}


#: Fewer steps than by default where a contract needs no strength: these tests are about promises.
QUICK = {
    "square": {"queries": 150},
    "fab-t": {"steps": 12},
    "apgd-ce": {"steps": 25},
    "apgd-dlr": {"steps": 25},
    "apgd-t": {"steps": 15},
}


def quick(entry, norm):
    """The attack with few steps."""
    return entry.make(norm=norm, **QUICK.get(entry.name, {}))


def distances(norm, x, adversarials):
    """The distances once more, in the slowest way."""
    order = ORDERS[norm]
    return np.array(
        [
            [np.linalg.norm((b.astype(float) - a.astype(float)).ravel(), order) for a, b in zip(x, row, strict=True)]
            for row in adversarials
        ]
    )


@each_attack
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    epsilon=st.one_of(st.floats(1e-9, 20.0), st.sampled_from([0.1, 0.3, 1 / 3, 8 / 255])),
    seed=st.integers(0, 2**31),
    touches_box=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_no_example_is_ever_outside_its_budget_or_the_box(entry, norm, epsilon, seed, touches_box, dtype):
    network = perceptron()
    x, y = data(network, 20, (3, 4), seed, dtype=dtype)
    x = np.round(x) if touches_box else x
    result = quick(entry, norm)(model(network), x, y, epsilons=epsilon, seed=seed)
    assert result.adversarials.min() >= 0
    assert result.adversarials.max() <= 1
    assert (distances(norm, x, result.adversarials) <= epsilon).all()
    assert result.adversarials.dtype == dtype


@each_attack
def test_reported_success_and_distance_are_those_of_the_returned_examples(entry, norm):
    network = perceptron()
    x, y = data(network)
    result = quick(entry, norm)(model(network), x, y, epsilons=[0.05, 0.5])
    for row, success in zip(result.adversarials, result.success, strict=True):
        np.testing.assert_array_equal(network.logits(row).argmax(axis=1) != y, success)
    np.testing.assert_allclose(result.distances, distances(norm, x, result.adversarials), rtol=1e-12)
    assert 0 < result.success.sum() < result.success.size


@each_attack
def test_the_same_seed_gives_the_same_bits_in_batches_of_any_size(entry, norm):
    network = perceptron()
    x, y = data(network, 150, dtype=np.float64)  # a search may magnify the rounding of another batch's products
    attack = quick(entry, norm)
    first = attack(model(network), x, y, epsilons=[0.1], seed=7)
    again = attack(model(network), x, y, epsilons=[0.1], seed=7)
    batched = attack(model(network), x, y, epsilons=[0.1], seed=7, batch_size=13)
    np.testing.assert_array_equal(first.adversarials, again.adversarials)
    moved = np.abs(first.adversarials - batched.adversarials).max(axis=(0, 2)) > 1e-6
    assert moved.mean() < 0.01  # where rounding turned a sign or a comparison
    np.testing.assert_array_equal(first.success, batched.success)


@each_gradient_attack
def test_robust_accuracy_of_a_linear_model_is_exact(entry, norm):
    """A margin of |w.x + b| over the dual norm of w: no attack can do better, and these do as well."""
    network = linear()
    x, y = data(network, 300, low=0.3, high=0.7, dtype=np.float64)
    weight = (network.weight[:, 0] - network.weight[:, 1]).astype(float)
    margin = np.abs(x @ weight + network.bias[0] - network.bias[1]) / np.linalg.norm(weight, DUALS[norm])
    epsilons = np.quantile(margin, [0.1, 0.5, 0.8]) + 1e-9  # between samples, and inside the box: 0.3 away at least
    assert epsilons[-1] < 0.3
    result = quick(entry, norm)(model(network), x, y, epsilons=epsilons)
    exact = [(margin > epsilon).mean() for epsilon in epsilons]
    np.testing.assert_allclose(result.robust_accuracy, exact, atol=1e-12)


@each_attack
def test_a_sample_that_is_wrong_already_is_left_alone_and_reported_apart(entry, norm):
    network = perceptron()
    x, y = data(network)
    wrong = np.arange(len(y)) % 3 == 0
    labels = np.where(wrong, (y + 1) % 4, y)
    result = quick(entry, norm)(model(network), x, labels, epsilons=[0.5])
    np.testing.assert_array_equal(result.already, wrong)
    np.testing.assert_array_equal(result.adversarials[0][wrong], x[wrong])
    assert not result.success[0][wrong].any()
    assert not result.queries[0][wrong].any()
    assert result.queries[0][~wrong].all()


@each_attack
def test_targets_are_reached_when_the_budget_allows(entry, norm):
    network = linear(classes=3)
    x, y = data(network, low=0.4, high=0.6)
    targets = (y + 1) % 3
    result = quick(entry, norm)(model(network), x, y, targets=targets, epsilons=[2.0 if norm == "l2" else 0.5])
    reached = network.logits(result.adversarials[0]).argmax(axis=1) == targets
    np.testing.assert_array_equal(reached, result.success[0])
    assert reached.mean() > 0.9


@each_attack
def test_a_margin_asks_for_confident_examples(entry, norm):
    network = linear(classes=3)
    x, y = data(network, low=0.4, high=0.6)
    result = quick(entry, norm)(model(network), x, y, epsilons=[1.0 if norm == "l2" else 0.3], margin=0.5)
    logits = network.logits(result.adversarials[0])[result.success[0]]
    own = y[result.success[0]]
    lead = np.delete(logits.ravel(), np.arange(len(own)) * 3 + own).reshape(-1, 2).max(axis=1)
    assert len(own) > 10
    assert (lead - logits[np.arange(len(own)), own] >= 0.5).all()


@each_attack
def test_inputs_are_not_changed(entry, norm):
    network = perceptron()
    x, y = data(network)
    before = x.copy(), y.copy()
    quick(entry, norm)(model(network), x, y, epsilons=[0.0, 0.3])
    np.testing.assert_array_equal(before[0], x)
    np.testing.assert_array_equal(before[1], y)


@each_attack
def test_a_budget_of_zero_returns_the_inputs_and_costs_nothing(entry, norm):
    network = perceptron()
    x, y = data(network)
    result = quick(entry, norm)(model(network), x, y, epsilons=[0.0])
    np.testing.assert_array_equal(result.adversarials[0], x)
    assert not result.success.any()
    assert not result.queries.any()


@each_attack
def test_huge_logits_do_not_look_robust(entry, norm):
    network = perceptron()
    x, y = data(network, 200)
    loud = ClosedForm(network.weight * 1e4, network.bias * 1e4, network.hidden)
    attack = quick(entry, norm)
    calm, shouted = (attack(model(each), x, y, epsilons=[0.2]).robust_accuracy[0] for each in (network, loud))
    assert calm < 0.8
    assert shouted < calm + 0.05


@each_attack
def test_a_broken_gradient_ends_no_attack(entry, norm):
    network = perceptron()
    x, y = data(network)
    sound = network.pullback

    def broken(x, cotangent):
        logits, gradient = sound(x, cotangent)
        gradient[::2] = np.nan
        return logits, gradient

    network.pullback = broken
    result = quick(entry, norm)(model(network), x, y, epsilons=[0.3])
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
    assert page.read_text(encoding="utf-8") == attacks_page(), "run: python -m mindscope.armour.catalogue"
