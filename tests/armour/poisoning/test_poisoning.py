"""Poison planted on purpose is found, and clean classes are left alone."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.poisoning import Strip, activation_clustering, spectral_signatures

from tests.armour.networks import ClosedForm, model


def planted(share=0.1, distance=8.0, seed=0):
    """Three classes of 200 points in 15 dimensions; a share of class 1 lies apart."""
    generator = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 200)
    x = generator.standard_normal((600, 15)) + 3 * np.eye(15)[y]
    poison = np.zeros(600, bool)
    poison[200 : 200 + int(200 * share)] = True
    x[poison] += distance * np.ones(15) / np.sqrt(15)
    return x, y, poison


def test_spectral_signatures_rank_the_poison_first():
    x, y, poison = planted()
    found = spectral_signatures(x, y, poison_share=0.1)
    assert found.suspects[poison].all()
    assert found.suspects.sum() == 3 * 30
    own = found.scores[y == 1]
    assert own[poison[y == 1]].min() > np.median(own[~poison[y == 1]])


def test_clusters_are_found_where_they_are_and_nowhere_else():
    x, y, poison = planted()
    found = activation_clustering(x, y)
    np.testing.assert_array_equal(found.suspects, poison)
    for seed in range(5):
        assert not activation_clustering(*planted(0.0, seed=seed)[:2]).suspects.any()


def test_a_trigger_keeps_its_class_under_blending():
    weight = np.random.default_rng(0).standard_normal((20, 3))
    weight[0] = [0.0, 300.0, 0.0]  # the back door: one pixel
    network = model(ClosedForm(weight, np.array([0.0, -150.0, 0.0])))
    generator = np.random.default_rng(1)
    clean = generator.uniform(0, 1, (60, 20)).astype(np.float32)
    clean[:, 0] = 0.0
    triggered = clean[:20].copy()
    triggered[:, 0] = 1.0
    detector = Strip(network, clean, blends=20)
    assert detector.scores(triggered).min() > -1e-6
    assert detector.scores(clean[20:]).max() < -0.01


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match="features expect finite rows"):
        spectral_signatures(np.zeros((3, 2)), [0, 1])
    with pytest.raises(InvalidInput, match="poison_share expects"):
        spectral_signatures(np.zeros((3, 2)), [0, 1, 1], poison_share=0.7)
    with pytest.raises(InvalidInput, match="expected clean inputs"):
        Strip(None, np.zeros((0, 3)))
