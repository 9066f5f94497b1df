"""Steps in L1 against linear programming, and the climb that they make."""

import numpy as np
import pytest
from mindscope.armour import PGD
from mindscope.armour.attacks import APGDCE, FGSM
from mindscope.armour.search.gradient_steps import shared_step
from scipy.optimize import linprog

from tests.armour.networks import data, linear, model, perceptron


@pytest.mark.parametrize("budget", [0.5, 2.0])
def test_one_step_in_l1_gains_what_linear_programming_gains(budget):
    network = linear(dtype=np.float64)
    x, y = data(network, 12, dtype=np.float64)
    found = FGSM(norm="l1")(model(network), x, y, epsilons=[budget]).raw[0]
    for one, label, reached in zip(x, y, found, strict=True):
        slope = (network.weight[:, 1] - network.weight[:, 0]) * (1 if label == 0 else -1)
        room = [(0, 1 - value) for value in one] + [(0, value) for value in one]
        best = linprog(np.append(-slope, slope), [np.ones(24)], [budget], bounds=room)
        np.testing.assert_allclose(slope @ (reached - one), -best.fun, atol=1e-9)


def test_a_shared_step_has_length_one_and_leaves_out_what_the_box_stops():
    gradient = np.array([[3.0, -2.0, 1.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    at = np.array([[1.0, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]])
    step = shared_step(gradient, at, (0.0, 1.0), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(step, [[0, -0.5, 0.5, 0], [0, 0, 0, 0]])


def test_many_sparse_steps_are_stronger_than_one():
    network = perceptron()
    x, y = data(network, 200)
    one, projected, adaptive = (
        attack(model(network), x, y, epsilons=[0.8]).robust_accuracy[0]
        for attack in (FGSM(norm="l1"), PGD(norm="l1"), APGDCE(norm="l1"))
    )
    assert projected < one
    assert adaptive < one


def test_the_climb_ends_where_a_check_finds_no_sample_left():
    network = perceptron()
    x, y = data(network, 20, (3, 4), seed=0)
    result = APGDCE(norm="l1", steps=25)(model(network), x, y, epsilons=[1.0])
    assert result.success.all()


def test_the_climb_may_end_in_the_steepest_element_alone():
    network = linear(dtype=np.float64)
    x, y = data(network, 50, low=0.3, high=0.7, dtype=np.float64)
    slope = network.weight[:, 0] - network.weight[:, 1]
    nearest = np.abs(x @ slope + network.bias[0] - network.bias[1]) / np.abs(slope).max()
    budget = np.median(nearest) + 1e-9
    np.testing.assert_array_equal(
        APGDCE(norm="l1", steps=25)(model(network), x, y, epsilons=[budget]).success[0], nearest < budget
    )
