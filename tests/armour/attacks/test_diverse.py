import numpy as np
import pytest
from mindscope.armour.attacks.gradient_sign import _bilinear, _resize


@pytest.mark.parametrize("shape", [(2, 6, 5), (9,)], ids=["picture", "row"])
def test_the_way_back_is_the_adjoint_of_the_way_there(shape):
    generator = np.random.default_rng(0)
    x, back = generator.standard_normal((2, 3, *shape))
    height, width = (1, 9) if len(shape) == 1 else shape[1:]
    down = _bilinear(height, generator.uniform(0.5, 1, 3), generator.random(3))[:, None]
    across = _bilinear(width, generator.uniform(0.5, 1, 3), generator.random(3))[:, None]
    there = _resize(down, x, across)
    again = _resize(down.swapaxes(-1, -2), back, across.swapaxes(-1, -2))
    np.testing.assert_allclose(np.sum(there * back), np.sum(x * again))


def test_a_whole_copy_is_the_input_and_a_smaller_one_keeps_its_values_between_zeros():
    whole, half = _bilinear(8, np.array([1.0, 0.5]), np.array([0.3, 0.999]))
    np.testing.assert_array_equal(whole, np.eye(8))
    np.testing.assert_allclose(half @ np.ones(8), [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(half @ np.arange(8.0), [0, 0, 0, 0, 0.5, 2.5, 4.5, 6.5])
