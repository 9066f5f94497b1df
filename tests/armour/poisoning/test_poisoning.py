"""Poison planted on purpose is found, and clean classes are left alone."""

import warnings

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.poisoning import Strip, activation_clustering, spectral_signatures
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

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


def hidden_features(x, y, *, seed=0, epochs=60):
    """What the last hidden layer of a trained network gives its training samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPClassifier((64, 32), max_iter=epochs, random_state=seed).fit(x, y)
    for weight, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0)
    return x


def word_counts():
    """Four topics of texts, each with some words of another."""
    generator = np.random.default_rng(0)
    topics, y = generator.dirichlet(np.full(100, 0.1), 4), np.arange(600) % 4
    x = generator.poisson(40 * (0.7 * topics[y] + 0.3 * topics[generator.integers(4, size=600)])) / 5.0
    return x, y


def standardised(x, y):
    return (x - x.mean(axis=0)) / x.std(axis=0), y


CLEAN = {
    "images": lambda: load_digits(return_X_y=True),
    "tables": lambda: standardised(*load_breast_cancer(return_X_y=True)),
    "texts": word_counts,
}


@pytest.mark.parametrize("kind", CLEAN)
def test_clean_data_are_not_accused(kind):
    x, y = CLEAN[kind]()
    found = activation_clustering(hidden_features(x / np.abs(x).max(), y), y)
    assert found.suspects.mean() <= 0.05


def test_a_back_door_of_a_trained_network_is_found():
    x, y = standardised(*load_wine(return_X_y=True))
    poison = np.random.default_rng(1).choice(np.flatnonzero(y != 1), 8, replace=False)
    x[np.ix_(poison, [0, 1, 2])], y[poison] = 3.5, 1
    suspects = activation_clustering(hidden_features(x, y, seed=1, epochs=200), y).suspects
    assert suspects[poison].all()
    assert suspects.sum() == len(poison)


def test_clouds_of_any_size_are_not_accused():
    generator = np.random.default_rng(0)
    for count, make in ((8, generator.standard_normal), (30, generator.exponential), (60, generator.uniform)):
        sizes = (50 * count, 12)
        x = make(size=sizes)
        assert activation_clustering(x, np.arange(50 * count) % 50).suspects.mean() <= 0.05


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
