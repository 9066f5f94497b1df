from itertools import combinations

import numpy as np
import pytest
from mindscope.armour.attacks import JSMA
from mindscope.armour.attacks.sparse_attacks import _most_salient

from tests.armour.networks import data, linear, model


@pytest.mark.parametrize("seed", range(5))
def test_the_pair_is_the_one_that_all_pairs_are_compared_for(seed):
    generator = np.random.default_rng(seed)
    gain, cost = generator.standard_normal((2, 1, 6))
    rise, fall = generator.random((2, 1, 6)) < 0.7
    best, expected = -np.inf, None
    for sign, allowed in ((1, rise[0]), (-1, fall[0])):
        for p, q in combinations(np.flatnonzero(allowed), 2):
            together, against = sign * (gain[0, p] + gain[0, q]), sign * (cost[0, p] + cost[0, q])
            if together > 0 > against and -together * against > best:
                best, expected = -together * against, (sign, {p, q})
    assert expected is not None
    chosen = _most_salient(gain, cost, rise, fall)[0]
    assert set(np.flatnonzero(chosen)) == expected[1]
    assert (chosen[list(expected[1])] == expected[0]).all()


def test_elements_go_to_the_edge_of_the_box_in_pairs_and_stop_when_the_class_is_another():
    network = linear(dtype=np.float64)
    x, y = data(network, 40, dtype=np.float64)
    result = JSMA()(model(network), x, y, epsilons=None)
    assert result.success.all()
    changed = result.adversarials[0] != x
    assert np.isin(result.adversarials[0][changed], (0.0, 1.0)).all()
    assert set(changed.sum(axis=1)) <= {2, 4, 6, 8, 10, 12}


def test_no_more_than_the_share_of_elements_is_changed():
    network = linear(dtype=np.float64)
    x, y = data(network, 40, dtype=np.float64)
    result = JSMA(share=0.2, theta=0.1)(model(network), x, y, epsilons=None)
    assert (result.raw[0] != x).sum(axis=1).max() == 2
