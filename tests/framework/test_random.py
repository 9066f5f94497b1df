"""Keys: the same ones give the same numbers, different ones have nothing to do with each other."""

import threading

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, ops, set_seed
from mindscope.framework.random import fold_in, from_bits, next_key, split

# Recorded once: a change of these changes every run that is repeated from its seed.
SEED_0 = 0x2DA2C583507B73C3795BF3C13F664AE0
UNIFORM_0 = [0.8266711, 0.347667, 0.5296478]


def test_keys_are_values():
    assert Key(7) == Key(7) != Key(8)
    assert from_bits(Key(7).bits) == Key(7)
    assert split(Key(7)) == split(Key(7))


def test_children_differ_from_each_other_and_from_their_parent():
    key = Key(1)
    family = [key, *split(key, 50), *(fold_in(key, n) for n in range(50)), *split(fold_in(key, 1), 50)]
    assert len({member.bits for member in family}) == len(family)


def test_the_numbers_of_a_seed_never_change():
    assert Key(0).bits == SEED_0
    np.testing.assert_allclose(ops.uniform(Key(0), (3,)).numpy(), UNIFORM_0, rtol=1e-6)
    assert not np.array_equal(ops.normal(Key(0), (4,)).numpy(), ops.normal(Key(1), (4,)).numpy())


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="0 or more, got -1"):
        Key(-1)


def test_set_seed_restarts_the_sequence_of_this_thread_only():
    set_seed(3)
    first = [next_key() for _ in range(3)]
    other = []

    def elsewhere():
        set_seed(4)
        other.append(next_key())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    following = next_key()
    set_seed(3)
    assert [next_key() for _ in range(4)] == [*first, following]
    assert other[0] not in first


def test_moments_of_the_distributions():
    x = ops.normal(Key(5), (200_000,)).numpy()
    u = ops.uniform(Key(6), (200_000,), -1.0, 3.0).numpy()
    # Five standard errors of a mean of 200,000.
    assert abs(x.mean()) < 5 / np.sqrt(200_000)
    assert abs(x.var() - 1) < 5 * np.sqrt(2 / 200_000)
    assert abs(u.mean() - 1) < 5 * 4 / np.sqrt(12 * 200_000)
    assert u.min() >= -1
    assert u.max() < 3
    assert ops.normal(Key(5), (2,), "bfloat16").dtype == "bfloat16"
    assert sorted(ops.permutation(Key(1), 9).tolist()) == list(range(9))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_share_and_the_mean(rate):
    y = ops.dropout(Tensor(np.ones(200_000, np.float32)), Key(2), rate).numpy()
    kept = np.count_nonzero(y) / y.size
    assert abs(kept - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / y.size)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-6)


def test_dropout_masks_of_neighbours_and_of_different_keys_are_uncorrelated():
    kept = [ops.dropout(Tensor(np.ones(100_000)), key, 0.5).numpy() > 0 for key in (Key(1), Key(2))]
    bound = 5 / np.sqrt(100_000)
    assert abs(np.corrcoef(kept[0], kept[1])[0, 1]) < bound
    for lag in (1, 2, 8, 64, 1024):
        assert abs(np.corrcoef(kept[0][lag:], kept[0][:-lag])[0, 1]) < bound


def test_dropout_hides_the_gradient_where_it_hid_the_value():
    x = Tensor(np.ones(100), requires_grad=True)
    y = ops.dropout(x, Key(3), 0.4)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
    assert ops.dropout(x, Key(3), 0.0) is x
    with pytest.raises(ValueError, match="rate from 0"):
        ops.dropout(x, Key(3), 1.0)
