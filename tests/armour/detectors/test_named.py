"""Detectors by name, fitted on clean inputs."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.detectors import DETECTORS, calibrate, fit_detector

from tests.armour.networks import linear, model

GENERATOR = np.random.default_rng(0)
CLEAN = GENERATOR.uniform(0.2, 0.8, (40, 1, 3, 4)).astype(np.float32)


def pictured(network):
    """The linear network of 12 numbers, asked about pictures of 3 x 4."""
    flat = network.logits
    network.logits = lambda x: flat(x.reshape(len(x), -1))
    return network


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_scores_every_input_and_keeps_its_rate(name):
    network = pictured(linear(classes=3))
    wrapped = model(network)
    y = network.logits(CLEAN).argmax(axis=1)
    detector = fit_detector(name, wrapped, CLEAN[:20], y[:20])
    scores = detector.scores(CLEAN[20:])
    assert scores.shape == (20,)
    assert np.isfinite(scores).all()
    assert calibrate(detector, CLEAN[20:], false_positive_rate=0.1).flags(CLEAN[20:]).sum() <= 2


def test_magnets_autoencoder_keeps_most_of_the_variance_and_no_more():
    line = np.linspace(0, 1, 30)[:, None] * np.ones((1, 6))
    noise = GENERATOR.normal(0, 1e-3, line.shape)
    clean = (line + noise).astype(np.float32)
    detector = fit_detector("magnet-error", model(linear(classes=2)), clean, np.zeros(30, int))
    assert detector.autoencoder.directions.shape == (1, 6)
    off = clean.copy()
    off[:, 0] += 0.5
    assert detector.scores(off).min() > detector.scores(clean).max()


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(InvalidInput, match="no detector 'magnet-eror'; did you mean 'magnet-error'"):
        fit_detector("magnet-eror", model(linear()), CLEAN, np.zeros(40, int))


def test_squeezing_is_for_the_unit_box():
    with pytest.raises(InvalidInput, match=r"unit box, got bounds \(-1.0, 1.0\)"):
        fit_detector("feature-squeezing", model(linear(), bounds=(-1.0, 1.0)), CLEAN, np.zeros(40, int))
