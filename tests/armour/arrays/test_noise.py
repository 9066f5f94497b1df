import numpy as np
from mindscope.armour.problem.search_problem import start_noise


def draw(generator, shape):
    return generator.uniform(-1, 1, shape)


def test_a_sample_gets_the_same_noise_in_any_company():
    together = start_noise(draw, np.arange(200), (3,), (0, 1))
    alone = start_noise(draw, np.array([5, 70, 199]), (3,), (0, 1))
    np.testing.assert_array_equal(together[[5, 70, 199]], alone)


def test_samples_seeds_and_restarts_differ():
    first = start_noise(draw, np.arange(200), (3,), (0, 0))
    assert len(np.unique(first)) == first.size
    for key in ((1, 0), (0, 1)):
        assert not np.isin(start_noise(draw, np.arange(200), (3,), key), first).any()
