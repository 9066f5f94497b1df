import numpy as np
from mindscope.armour import FGSM

from tests.armour.networks import data, linear, model


def test_one_step_along_the_signs_of_the_weights():
    network = linear(dtype=np.float64)
    x, y = data(network, low=0.4, high=0.6, dtype=np.float64)
    result = FGSM()(model(network), x, y, epsilons=[0.125])
    towards = np.sign(network.weight[:, 1] - network.weight[:, 0]) * np.where(y == 0, 1, -1)[:, None]
    np.testing.assert_allclose(result.adversarials[0], x + 0.125 * towards, rtol=1e-12)


def test_in_l2_the_step_follows_the_weights():
    network = linear(dtype=np.float64)
    x, y = data(network, low=0.4, high=0.6, dtype=np.float64)
    result = FGSM(norm="l2")(model(network), x, y, epsilons=[0.2])
    weight = network.weight[:, 1] - network.weight[:, 0]
    towards = weight / np.linalg.norm(weight) * np.where(y == 0, 1, -1)[:, None]
    np.testing.assert_allclose(result.adversarials[0], x + 0.2 * towards, rtol=1e-5)
