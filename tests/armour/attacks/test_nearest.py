"""Nearest examples against exact ones: linear models in closed form, and a small ReLU network as a mixed program."""

import numpy as np
import pytest
from mindscope.armour import ATTACKS
from mindscope.armour.distances import DISTANCES
from mindscope.armour.distances.boundary_steps import step_to_hyperplane
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.armour.attacks.cases import light
from tests.armour.networks import ClosedForm, data, linear, model

NEAREST = [
    (name, norm)
    for name, entry in ATTACKS.items()
    if entry.make.finds_minimum and entry.asks == "gradients"  # the others have limits of their own in test_black_box
    for norm in entry.norms
    if norm != "l0"  # in which a linear model has no closed form with the box
]


#: Attacks within budgets that are exact on linear models, and a few of those that search for the nearest.
WITHIN = [
    *[(name, "linf") for name in ("fgsm", "ll-fgsm", "pgd", "bim", "mi-fgsm", "apgd-ce", "apgd-dlr", "brendel-bethge")],
    *[("fgsm", "l1"), ("fmn", "l1"), ("cw", "l2"), ("ddn", "l2"), ("deepfool", "l2"), ("fmn", "l2")],
]


def on_a_linear_model(norm, count):
    """Network, inputs of which many touch the box, labels, and the exact distances to the other class."""
    network = linear(dtype=np.float64)
    x, _ = data(network, count, low=-0.3, high=1.3, dtype=np.float64)
    x = np.clip(x, 0, 1)
    y = network.logits(x).argmax(axis=1)
    slope = np.where(y[:, None] == 0, 1.0, -1.0) * (network.weight[:, 1] - network.weight[:, 0])
    gap = np.abs(np.diff(network.logits(x), axis=1)[:, 0])
    return network, x, y, DISTANCES[norm].measure(x, x + step_to_hyperplane(norm, x, slope, gap, (0.0, 1.0)))


@pytest.mark.parametrize(("name", "norm"), NEAREST, ids=[f"{name}-{norm}" for name, norm in NEAREST])
def test_distances_on_a_linear_model_are_exact_with_the_box(name, norm):
    network, x, y, exact = on_a_linear_model(norm, 200)
    result = ATTACKS[name].make(norm=norm)(model(network), x, y, epsilons=None)
    assert result.success.all()
    ratio = result.minimum_norms / exact
    assert ratio.min() >= 1 - 1e-9
    assert np.median(ratio) <= 1.001
    assert np.quantile(ratio, 0.95) <= 1.02


@pytest.mark.parametrize(("name", "norm"), WITHIN, ids=[f"{name}-{norm}" for name, norm in WITHIN])
def test_robust_accuracy_on_a_linear_model_is_exact(name, norm):
    network, x, y, exact = on_a_linear_model(norm, 100)
    ordered = np.sort(exact)
    budgets = [(ordered[place] + ordered[place + 1]) / 2 for place in (20, 50, 80)]
    result = light(name, norm)(model(network), x, y, epsilons=budgets)
    np.testing.assert_allclose(result.robust_accuracy, [0.79, 0.49, 0.19], atol=0.011)  # one may stand between


def exact_linf(network, x, label, classes):
    """The smallest Linf change that gives another class, with a binary variable for each hidden unit."""
    features, hidden = network.hidden.shape
    size = features + 2 * hidden + 1  # input, activations, switches, and the distance
    best = np.inf
    large = np.abs(network.hidden).sum(axis=0).max()
    for other in set(range(classes)) - {label}:
        rows, lower, upper = [], [], []

        def add(entries, low, high, rows=rows, lower=lower, upper=upper):
            row = np.zeros(size)
            for at, value in entries:
                row[at] += value
            rows.append(row)
            lower.append(low)
            upper.append(high)

        for i in range(features):
            add([(i, 1), (size - 1, -1)], -np.inf, x[i])
            add([(i, 1), (size - 1, 1)], x[i], np.inf)
        for j in range(hidden):
            inner = [(i, -network.hidden[i, j]) for i in range(features)]
            add([(features + j, 1), *inner], 0, np.inf)
            add([(features + j, 1), *inner, (features + hidden + j, large)], -np.inf, large)
            add([(features + j, 1), (features + hidden + j, -large)], -np.inf, 0)
        lead = network.weight[:, other] - network.weight[:, label]
        add([(features + j, lead[j]) for j in range(hidden)], network.bias[label] - network.bias[other], np.inf)
        integral = np.r_[np.zeros(features + hidden), np.ones(hidden), 0]
        limits = Bounds(np.zeros(size), np.r_[np.ones(features), np.full(hidden, np.inf), np.ones(hidden), 1.0])
        cost = np.r_[np.zeros(size - 1), 1.0]
        solved = milp(cost, constraints=LinearConstraint(rows, lower, upper), integrality=integral, bounds=limits)
        best = min(best, solved.fun if solved.success else np.inf)
    return best


def test_no_attack_beats_the_exact_distance_of_a_relu_network_and_the_best_come_close():
    generator = np.random.default_rng(0)
    hidden, weight = generator.standard_normal((4, 8)), generator.standard_normal((8, 3))
    network = ClosedForm(weight, -(np.maximum(generator.random((99, 4)) @ hidden, 0).mean(axis=0) @ weight), hidden)
    x, y = data(network, 12, (4,), dtype=np.float64)
    exact = np.array([exact_linf(network, one, label, 3) for one, label in zip(x, y, strict=True)])
    reachable = np.isfinite(exact)
    assert reachable.sum() >= 10
    best = np.full(len(x), np.inf)
    for name, entry in ATTACKS.items():
        if "linf" in entry.norms:
            attack = entry.make(norm="linf") if entry.asks == "gradients" else light(name, "linf")
            found = attack(model(network), x, y, epsilons=None).minimum_norms
            assert (found >= exact - 1e-6).all(), name
            best = np.minimum(best, found)
    assert np.median(best[reachable] / exact[reachable]) <= 1.01
