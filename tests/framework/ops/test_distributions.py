"""Draws: the same key gives the same numbers, and many of them have the moments they should."""

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError, Tensor, ops

_N = 40_000
_SHARES = np.array([0.1, 0.2, 0.7])

#: Draws, with the mean and the variance of one number.
MOMENTS = {
    "uniform": (lambda key: ops.uniform(key, (_N,), -1.0, 2.0), 0.5, 0.75),
    "normal": (lambda key: ops.normal(key, (_N,)), 0.0, 1.0),
    "randint": (lambda key: ops.randint(key, 0, 5, (_N,)), 2.0, 2.0),
    "exponential": (lambda key: ops.exponential(key, (_N,)), 1.0, 1.0),
    "bernoulli": (lambda key: ops.bernoulli(key, 0.3, (_N,)), 0.3, 0.21),
    "gumbel": (lambda key: ops.gumbel(key, (_N,)), 0.577216, np.pi**2 / 6),
    "laplace": (lambda key: ops.laplace(key, (_N,)), 0.0, 2.0),
    "truncated_normal": (lambda key: ops.truncated_normal(key, (_N,)), 0.0, 0.7737413),
    "gamma": (lambda key: ops.gamma(key, 3.0, (_N,)), 3.0, 3.0),
    "poisson": (lambda key: ops.poisson(key, 4.0, (_N,)), 4.0, 4.0),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_numbers_have_their_moments_and_depend_on_the_key_alone(name):
    draw, mean, variance = MOMENTS[name]
    found = draw(Key(3)).numpy().astype(float)
    np.testing.assert_array_equal(found, draw(Key(3)).numpy())
    assert (found != draw(Key(4)).numpy()).any()
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / _N)
    assert found.var() == pytest.approx(variance, rel=0.06)


def test_truncated_numbers_stay_within_their_bounds():
    found = ops.truncated_normal(Key(1), (_N,), -0.5, 3.0).numpy()
    assert found.min() >= -0.5
    assert found.max() <= 3.0


@pytest.mark.parametrize("replacement", [True, False])
def test_classes_are_drawn_with_their_shares(replacement):
    found = ops.multinomial(Key(0), Tensor(np.tile(_SHARES * 3, (_N // 4, 1))), 2, replacement).numpy()
    shares = np.bincount(found[:, 0], minlength=3) / len(found)
    np.testing.assert_allclose(shares, _SHARES, atol=0.02)
    assert found.shape == (_N // 4, 2)
    assert (found[:, 0] == found[:, 1]).any() == replacement


def test_gumbel_softmax_is_one_hot_with_a_soft_gradient():
    logits = Tensor(np.log(_SHARES), requires_grad=True)
    hard = ops.gumbel_softmax(Key(2), logits, hard=True)
    assert sorted(hard.numpy().round(12).tolist()) == [0.0, 0.0, 1.0]
    (hard * Tensor(np.array([1.0, 2.0, 3.0]))).sum().backward()
    assert np.abs(logits.grad.numpy()).sum() > 0


def test_a_shuffle_is_a_permutation_of_slices():
    x = Tensor(np.arange(20).reshape(10, 2))
    found = ops.shuffle(Key(5), x)
    assert sorted(found.tolist()) == x.tolist() != found.tolist()


def test_errors_say_what_was_expected():
    with pytest.raises(ShapeError, match="at most 3 draws, got 4"):
        ops.multinomial(Key(0), Tensor(_SHARES), 4, replacement=False)
    with pytest.raises(ValueError, match="low < high, got 3 and 3"):
        ops.randint(Key(0), 3, 3, (2,))
