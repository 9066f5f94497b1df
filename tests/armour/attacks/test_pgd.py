import numpy as np
from mindscope.armour import FGSM, PGD

from tests.armour.networks import data, model, perceptron


def test_a_sample_that_has_fallen_costs_no_more_gradients():
    network = perceptron()
    x, y = data(network, 100)
    result = PGD(steps=30)(model(network), x, y, epsilons=[0.12])
    fallen = result.success[0]
    assert 0 < fallen.sum() < 100
    assert result.gradient_calls[0][~fallen].tolist() == [30] * int((~fallen).sum())
    assert np.median(result.gradient_calls[0][fallen]) < 10


def test_restarts_see_only_what_resists_and_never_lose_a_success():
    network = perceptron()
    x, y = data(network, 200)
    once, often = (PGD(steps=5, restarts=count)(model(network), x, y, epsilons=[0.12]) for count in (1, 6))
    assert (often.success >= once.success).all()
    np.testing.assert_array_equal(often.adversarials[once.success], once.adversarials[once.success])
    assert often.queries[0][~often.success[0]].tolist() == [36] * int((~often.success).sum())


def test_a_random_start_depends_on_the_seed_and_stays_within_the_budget():
    network = perceptron()
    x, y = data(network, 50)
    first, second = (
        PGD(steps=1, step_size=1e-9, random_start=True)(model(network), x, y, epsilons=[0.05], seed=seed).raw
        for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    assert np.abs(first - x).max() > 0.04


def test_many_steps_are_stronger_than_one():
    network = perceptron()
    x, y = data(network, 300)
    for norm, epsilon in (("linf", 0.12), ("l2", 0.35)):
        one = FGSM(norm=norm)(model(network), x, y, epsilons=[epsilon]).robust_accuracy[0]
        many = PGD(norm=norm)(model(network), x, y, epsilons=[epsilon]).robust_accuracy[0]
        assert many < one - 0.005
