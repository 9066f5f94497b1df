"""Every detector on inputs whose score is known, and alarms that keep their promise on clean ones."""

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput
from mindscope.armour.detectors import (
    BitDepth,
    FeatureSqueezing,
    LocalIntrinsicDimension,
    MedianSmoothing,
    PredictionDivergence,
    QuerySimilarity,
    ReconstructionError,
    RegionBased,
    calibrate,
    fit_ensemble,
    fit_mahalanobis,
    fit_principal_components,
    spatial_smoothing,
)
from mindscope.armour.privacy import measure_leakage

from tests.armour.networks import linear, model

GENERATOR = np.random.default_rng(0)


def plain(x):
    return x


class Fixed:
    def scores(self, x):
        return np.asarray(x, float)


def test_an_alarm_is_set_off_by_no_more_clean_inputs_than_allowed():
    clean = np.arange(100.0)
    for rate, allowed in ((0.0, 0), (0.05, 5), (0.999, 99)):
        assert calibrate(Fixed(), clean, false_positive_rate=rate).flags(clean).sum() == allowed
    assert calibrate(Fixed(), np.ones(50)).flags(np.array([1.0, 1.5])).tolist() == [False, True]
    with pytest.raises(InvalidInput, match="one input or more"):
        calibrate(Fixed(), np.zeros(0))
    with pytest.raises(InvalidInput, match="share from 0 to below 1"):
        calibrate(Fixed(), clean, false_positive_rate=1.0)


def test_squeezers_remove_what_they_say():
    x = np.array([[0.0, 0.2, 0.49, 1.0]], np.float32)
    np.testing.assert_allclose(BitDepth(1)(x), [[0, 0, 0, 1]])
    assert BitDepth(8)(x).dtype == np.float32
    speck = np.zeros((1, 1, 5, 5), np.float32)
    speck[0, 0, 2, 2] = 1
    assert not MedianSmoothing(3)(speck).any()
    with pytest.raises(InvalidInput, match="expects images"):
        MedianSmoothing(3)(x)
    with pytest.raises(InvalidInput, match="bits expects 1 to 16, got 0"):
        BitDepth(0)


def test_squeezing_scores_the_change_of_probabilities():
    network = linear(features=9)
    x = GENERATOR.uniform(0, 1, (6, 3, 3)).astype(np.float32)

    def softmax(values):
        z = np.exp(network.logits(values).astype(float))
        return z / z.sum(axis=1, keepdims=True)

    expected = np.max([np.abs(softmax(x) - softmax(s(x))).sum(1) for s in (BitDepth(2), MedianSmoothing(2))], axis=0)
    found = FeatureSqueezing(model(network), (BitDepth(2), MedianSmoothing(2))).scores(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(
        spatial_smoothing(model(network), 3).scores(x),
        np.abs(softmax(x) - softmax(MedianSmoothing(3)(x))).sum(1),
        atol=1e-6,
    )


def test_reconstruction_off_the_manifold_is_an_error_and_on_it_none():
    basis = np.linalg.qr(GENERATOR.standard_normal((8, 3)))[0].T
    clean = (GENERATOR.standard_normal((50, 3)) @ basis).astype(np.float32)
    off = clean + 0.5 * np.linalg.svd(basis)[2][-1].astype(np.float32)
    autoencoder = fit_principal_components(clean, 3)
    detector = ReconstructionError(autoencoder)
    assert detector.scores(clean).max() < 1e-10
    np.testing.assert_allclose(detector.scores(off), 0.25 / 8, rtol=1e-3)
    assert calibrate(detector, clean).flags(off).all()
    network = model(linear(features=8), bounds=(-9.0, 9.0))
    divergence = PredictionDivergence(network, autoencoder, temperature=1.0)
    np.testing.assert_allclose(divergence.scores(clean), 0, atol=1e-6)
    turned = PredictionDivergence(network, lambda x: -50 * x, temperature=1.0).scores(clean)
    assert (turned <= np.log(2) + 1e-12).all()
    assert turned.max() > 0.5
    with pytest.raises(InvalidInput, match="components expects 1 to 8, got 9"):
        fit_principal_components(clean, 9)


def test_mahalanobis_is_the_distance_to_the_nearest_mean_and_ignores_linear_maps():
    y = np.arange(4000) % 2
    scale = np.array([1.0, 3.0])
    x = GENERATOR.standard_normal((4000, 2)) * scale + 10 * y[:, None]
    points = np.array([[0.0, 0.0], [10.0, 13.0], [2.0, 0.0]])
    found = fit_mahalanobis(plain, x, y)
    np.testing.assert_allclose(found.scores(points), [0, 1, 4], atol=0.35)
    turn = GENERATOR.standard_normal((2, 2))
    np.testing.assert_allclose(
        fit_mahalanobis(plain, x @ turn, y).scores(points @ turn), found.scores(points), rtol=1e-3, atol=1e-3
    )
    with pytest.raises(InvalidInput, match="rows of finite numbers"):
        found.scores(points * np.nan)


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_the_local_dimension_of_a_flat_sheet_is_its_own(dimension):
    sheet = np.zeros((3000, 6))
    sheet[:, :dimension] = GENERATOR.uniform(0, 1, (3000, dimension))
    x = np.zeros((200, 6))
    x[:, :dimension] = GENERATOR.uniform(0.3, 0.7, (200, dimension))
    found = LocalIntrinsicDimension(plain, sheet, neighbours=50).scores(x)
    assert np.median(found) == pytest.approx(dimension, rel=0.12)
    with pytest.raises(InvalidInput, match="neighbours expects 2 to 3000 references, got 1"):
        LocalIntrinsicDimension(plain, sheet, neighbours=1)


def test_region_based_detection_finds_adversarial_examples_of_a_linear_model():
    network = linear(features=12)
    x = GENERATOR.uniform(0, 1, (300, 12)).astype(np.float32)
    labels = network.logits(x).argmax(axis=1)
    far = np.abs(np.diff(network.logits(x), axis=1)[:, 0]) > 1.5
    x, labels = x[far], labels[far]
    result = PGD()(model(network), x, labels, epsilons=[0.5])
    attacked = np.asarray(result.adversarials[0])[result.success[0]]
    detector = RegionBased(model(network), radius=0.3, points=60)
    assert detector.scores(x).mean() < 0.2
    assert len(attacked) > 10
    near = x[result.success[0]] + (attacked - x[result.success[0]]) * 0.5
    assert measure_leakage(detector.scores(near), detector.scores(x)).auc > 0.7


def test_queries_that_creep_are_told_from_queries_at_random():
    detector = QuerySimilarity(plain, neighbours=10, memory=100)
    honest = detector.scores(GENERATOR.uniform(0, 1, (100, 20)))
    assert np.isneginf(honest[:10]).all()
    start = GENERATOR.uniform(0, 1, 20)
    creeping = detector.scores(start + 0.01 * GENERATOR.standard_normal((40, 20)))
    assert creeping[15:].min() > honest[10:].max()
    detector.forget()
    assert np.isneginf(detector.scores(start[None])).all()


class Axis:
    """The input's value along one axis, in a unit of its own."""

    def __init__(self, axis, unit):
        self.axis, self.unit = axis, unit

    def scores(self, x):
        return x[:, self.axis] * self.unit


def test_an_ensemble_weighs_places_not_units_and_counts_votes():
    clean, more = (np.random.default_rng(seed).standard_normal((2000, 3)) for seed in (1, 2))
    detectors = [Axis(0, 1.0), Axis(1, 1e6), Axis(2, -1e-6)]
    suspect = np.array([[9.0, 0.0, 0.0], [9.0, 9.0, 0.0], [9.0, 9.0, -9.0], [0.0, 0.0, 9.0]])
    for votes, expected in ((1, [1, 1, 1, 0]), (2, [0, 1, 1, 0]), (3, [0, 0, 1, 0])):
        alarm = calibrate(fit_ensemble(detectors, clean, votes=votes), more, false_positive_rate=0.02)
        assert alarm.flags(suspect).tolist() == [bool(one) for one in expected]
        assert alarm.flags(more).mean() <= 0.02
    # the places of independent clean scores are uniform, and so the largest of three exceeds t with 1 - t ** 3
    places = fit_ensemble(detectors, clean).scores(more)
    for share in (0.3, 0.5, 0.9):
        assert np.mean(places > share) == pytest.approx(1 - share**3, abs=0.03)
    with pytest.raises(InvalidInput, match="1 to 3 votes"):
        fit_ensemble(detectors, clean, votes=4)
    with pytest.raises(InvalidInput, match="one input or more"):
        fit_ensemble(detectors, clean[:0])
