"""The moving average of weights: its formula, its block, its state."""

from contextlib import suppress

import numpy as np
import pytest
from mindscope.framework import Parameter
from mindscope.framework.optim import ExponentialMovingAverage


def parameters(dtype=np.float64):
    generator = np.random.default_rng(0)
    return [Parameter(generator.standard_normal(s).astype(dtype), f"p{n}") for n, s in enumerate([(3, 2), (4,), ()])]


@pytest.mark.parametrize("warmup", [False, True])
def test_the_average_follows_its_formula(warmup):
    mine = parameters()
    average = ExponentialMovingAverage(mine, 0.9, warmup=warmup)
    expected = [p.asnumpy() for p in mine]
    for step in range(6):
        for p in mine:
            p.set_data(p.numpy() + 0.1 * (step + 1))
        average.update()
        d = min(0.9, (1 + step) / (10 + step)) if warmup else 0.9
        expected = [d * a + (1 - d) * p.numpy() for a, p in zip(expected, mine, strict=True)]
    for a, e in zip(average.averages, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-13)


def test_weights_come_back_after_the_block_even_when_it_fails():
    mine = parameters(np.float16)
    average = ExponentialMovingAverage(mine, 0.5, warmup=False)
    assert {a.dtype for a in average.averages} == {np.dtype(np.float32)}
    before = [p.asnumpy() for p in mine]
    for p in mine:
        p.set_data(p.numpy() + 1)
    average.update()
    seen = []
    with suppress(KeyError), average.applied():
        seen.append(mine[0].asnumpy())
        raise KeyError
    np.testing.assert_allclose(seen[0], before[0] + 0.5, rtol=1e-2)
    np.testing.assert_array_equal(mine[0].numpy(), before[0] + 1)


def test_a_state_comes_back_and_one_that_does_not_fit_is_refused():
    first, second = ExponentialMovingAverage(parameters(), 0.5), ExponentialMovingAverage(parameters(), 0.5)
    first.update()
    second.load_state_dict(first.state_dict())
    assert second.updates == 1
    with pytest.raises(ValueError, match="averages missing"):
        second.load_state_dict({"updates": 1})
    with pytest.raises(ValueError, match="expects averages of shapes"):
        second.load_state_dict({"updates": 1, "averages": []})


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"decay in \[0, 1\), got 1.0"):
        ExponentialMovingAverage(parameters(), 1.0)
    with pytest.raises(ValueError, match="at least one parameter"):
        ExponentialMovingAverage([])
