"""Inversion where the best input is known: the corner of the box that a linear class points to."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput, wrap
from mindscope.armour.privacy import invert_classes, reconstruct

from tests.armour.frameworks import MAKE, inputs, logits
from tests.armour.networks import linear, model


def test_the_surest_input_of_a_linear_class_is_a_corner():
    network = linear(features=10, classes=2)
    found = invert_classes(model(network), [0, 1], (10,))
    direction = network.weight[:, 0] - network.weight[:, 1]
    np.testing.assert_allclose(found.inputs, [direction > 0, direction < 0], atol=1e-6)
    np.testing.assert_array_equal(found.logits.argmax(axis=1), [0, 1])


def test_an_input_is_reconstructed_from_its_logits_when_these_tell_it():
    network = linear(features=4, classes=5, seed=3)
    secret = np.random.default_rng(1).uniform(0.1, 0.9, (6, 4)).astype(np.float32)
    found = reconstruct(model(network), network.logits(secret), (4,))
    np.testing.assert_allclose(found.inputs, secret, atol=0.02)
    assert found.objective.max() < 1e-4


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_both_frameworks_are_inverted_alike_and_within_bounds(make):
    found = invert_classes(wrap(make()), [0, 1, 2], (3, 4), steps=60)
    np.testing.assert_array_equal(found.logits.argmax(axis=1), [0, 1, 2])
    assert found.inputs.min() >= 0
    assert found.inputs.max() <= 1
    best = logits(inputs(2000))
    sureness = (np.exp(best) / np.exp(best).sum(axis=1, keepdims=True)).max(axis=0)
    assert (np.exp(-found.objective) >= sureness).all()


def test_smoothness_makes_neighbours_alike():
    network = linear(features=36, classes=2)
    rough, smooth = (invert_classes(model_of(network), [0], (6, 6), smoothness=s, steps=80) for s in (0.0, 5.0))
    assert np.abs(np.diff(smooth.inputs, axis=2)).mean() < 0.5 * np.abs(np.diff(rough.inputs, axis=2)).mean()


def model_of(network):
    return model(network)


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match="classes expects 0 to 1, got 7"):
        invert_classes(model(linear()), [7], (12,))
    with pytest.raises(InvalidInput, match="classes expects integers"):
        invert_classes(model(linear()), [0.5], (12,))
    with pytest.raises(InvalidInput, match="logits expects 2 classes as the model has, got 3"):
        reconstruct(model(linear()), np.zeros((1, 3)), (12,))
    with pytest.raises(InvalidInput, match="steps, learning_rate, smoothness"):
        invert_classes(model(linear()), [0], (12,), steps=0)
