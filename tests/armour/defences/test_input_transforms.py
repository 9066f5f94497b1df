"""Models behind transforms of their input: what the transforms do, and that attacks see through them."""

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, wrap
from mindscope.armour.array_api import to_numpy
from mindscope.armour.defences import BitDepth, Jpeg, MedianSmoothing, transformed

from tests.armour.frameworks import MAKE, inputs, logits
from tests.armour.networks import data, linear, model


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_the_model_sees_the_transformed_input_and_the_gradient_comes_from_there(make):
    x = inputs(12)
    seen = MedianSmoothing(2)(BitDepth(2)(x))
    plain = wrap(make())
    behind = transformed(plain, BitDepth(2), MedianSmoothing(2))
    np.testing.assert_allclose(to_numpy(behind.logits(behind.native(x))), logits(seen), atol=1e-5)
    values, gradient = behind.pullback(behind.native(x), lambda z: z)
    expected = plain.pullback(plain.native(seen), lambda z: z)
    np.testing.assert_allclose(to_numpy(values), to_numpy(expected[0]), atol=1e-6)
    np.testing.assert_allclose(to_numpy(gradient), to_numpy(expected[1]), atol=1e-6)


def test_attacks_see_through_a_rounding_that_has_no_gradient():
    """With 1 bit an input of the open box is 0 or 1: only steps beyond one half count, and attacks find them."""
    network = linear(dtype=np.float64)
    x, y = data(network, 40, dtype=np.float64)
    behind = transformed(model(network), BitDepth(1))
    y = behind.logits(x).argmax(axis=1)
    towards = np.where(y[:, None] == 0, 1.0, -1.0) * (network.weight[:, 1] - network.weight[:, 0])
    can_turn = np.abs(x - 0.5) < 0.3  # by the budget; the best answer turns all that help
    best = np.where(can_turn, towards > 0, np.round(x))
    exact = network.logits(best).argmax(axis=1) != y
    found = PGD()(behind, x, y, epsilons=[0.3]).success[0]
    assert not (found & ~exact).any()
    assert (found == exact).mean() > 0.9


def test_jpeg_keeps_what_people_see_and_loses_what_they_do_not():
    down, across = np.mgrid[:16, :16] / 16
    smooth = (np.stack([down, across, 1 - down])[None] * 0.8 + 0.1).astype(np.float32)
    noise = np.random.default_rng(0).choice([-0.1, 0.1], (1, 1, 16, 16)).astype(np.float32)
    assert np.abs(Jpeg(95)(smooth[:, :1]) - smooth[:, :1]).max() < 0.02
    grey = smooth[:, :1] + noise
    left = Jpeg(10)(grey) - Jpeg(10)(smooth[:, :1])
    assert np.abs(left).mean() < 0.6 * np.abs(noise).mean()
    for shape in ((2, 3, 16, 16), (2, 1, 16, 16), (2, 16, 16)):
        pictures = np.random.default_rng(1).random(shape).astype(np.float32)
        found = Jpeg()(pictures)
        assert found.shape == shape
        assert found.dtype == np.float32
        assert 0 <= found.min() <= found.max() <= 1
    with pytest.raises(InvalidInput, match=r"1 or 3, height, width\) or \(n, height, width\), got \(2, 2, 8, 8\)"):
        Jpeg()(np.zeros((2, 2, 8, 8)))
    with pytest.raises(InvalidInput, match="quality expects 1 to 95, got 0"):
        Jpeg(0)
