"""Initializers: reproducible, of the right spread, in the right range."""

from math import sqrt

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError
from mindscope.framework.nn import (
    Constant,
    HeNormal,
    HeUniform,
    Normal,
    One,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
    Zero,
)
from mindscope.framework.nn.initializers import fans

SHAPE = (60, 40, 3, 2)  # fan_in 240, fan_out 360
SPREADS = {
    "normal": (Normal(0.3, 1.0), 0.3, np.inf),
    "truncated": (TruncatedNormal(0.5), 0.5 * 0.87962566, 1.0),
    "uniform": (Uniform(0.2), 0.2 / sqrt(3), 0.2),
    "xavier uniform": (XavierUniform(2.0), 2.0 * sqrt(2 / 600), 2.0 * sqrt(6 / 600)),
    "xavier normal": (XavierNormal(), sqrt(2 / 600), np.inf),
    "he uniform": (HeUniform(), sqrt(2 / 240), sqrt(6 / 240)),
    "he uniform, the layers' own": (HeUniform(sqrt(5)), 1 / sqrt(3 * 240), 1 / sqrt(240)),
    "he normal, fan out": (HeNormal(1.0, "fan_out"), sqrt(1 / 360), np.inf),
}
every_spread = pytest.mark.parametrize(("init", "deviation", "limit"), SPREADS.values(), ids=SPREADS)


@every_spread
def test_values_have_the_spread_and_range_of_their_formula(init, deviation, limit):
    values = init(SHAPE, Key(1), np.float64)
    assert values.std() == pytest.approx(deviation, rel=0.03)
    assert values.mean() == pytest.approx(getattr(init, "mean", 0.0), abs=4 * deviation / sqrt(values.size))
    assert np.abs(values - getattr(init, "mean", 0.0)).max() <= limit


@every_spread
def test_equal_keys_give_equal_values_and_others_do_not(init, deviation, limit):
    first, again, other = (init((5, 4), Key(seed)) for seed in (1, 1, 2))
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("init", "value"), [(Zero(), 0.0), (One(), 1.0), (Constant(-2.5), -2.5)])
def test_constants_are_constant(init, value):
    assert (init((2, 3), Key(0)) == value).all()


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 2, 3), (3, 3)])
def test_the_shorter_side_of_an_orthogonal_weight_is_orthogonal(shape):
    matrix = Orthogonal(2.0)(shape, Key(3), np.float64).reshape(shape[0], -1)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-12)


def test_fans_of_dense_and_convolution_weights():
    assert fans((10, 20)) == (20, 10)
    assert fans((8, 4, 3, 3)) == (36, 72)
    for shape in ((3,), (), (0, 3)):
        with pytest.raises(ShapeError, match="two axes or more"):
            fans(shape)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Normal(-1.0), "Normal expects a width of 0 or more, got -1.0"),
        (lambda: Uniform(float("nan")), "Uniform expects a width of 0 or more, got nan"),
        (lambda: TruncatedNormal(1.0, 0.0, 0.0), "TruncatedNormal expects limit above 0, got 0.0"),
    ],
)
def test_impossible_spreads_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
