"""Tests of drift against SciPy, their own level, and changes put in on purpose."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.drift import Energy, PageHinkley, ks_drift, mmd_drift
from scipy.stats import ks_2samp

from tests.armour.networks import linear, model


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0])
def test_kolmogorov_and_smirnov_agree_with_scipy(shift):
    generator = np.random.default_rng(1)
    a, b = generator.standard_normal((150, 2)), generator.standard_normal((90, 2)) + shift
    found = ks_drift(a, b)
    expected = [ks_2samp(a[:, i], b[:, i], method="exact") for i in range(2)]
    assert found.statistic == pytest.approx(max(e.statistic for e in expected))
    np.testing.assert_allclose(found.features, [e.pvalue for e in expected], rtol=0.15, atol=2e-3)
    assert found.p_value == pytest.approx(min(1.0, 2 * found.features.min()))


@pytest.mark.parametrize("test", [ks_drift, lambda a, b: mmd_drift(a, b, permutations=60)], ids=["ks", "mmd"])
def test_the_level_is_kept_and_a_shift_is_seen(test):
    generator = np.random.default_rng(0)
    alarms = [
        test(generator.standard_normal((60, 4)), generator.standard_normal((60, 4))).has_drifted for _ in range(60)
    ]
    assert np.mean(alarms) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert test(generator.standard_normal((100, 4)), generator.standard_normal((100, 4)) + 0.8).has_drifted


def test_the_discrepancy_sees_what_no_feature_alone_shows():
    generator = np.random.default_rng(0)
    a = generator.standard_normal((200, 2))
    b = generator.multivariate_normal([0, 0], [[1, 0.95], [0.95, 1]], 200)
    assert mmd_drift(a, b).has_drifted
    assert ks_drift(a, b).p_value > 0.01


def test_the_discrepancy_is_the_sum_over_pairs():
    a, b = np.random.default_rng(0).standard_normal((2, 6, 3))
    joined = np.concatenate([a, b])
    gaps = np.linalg.norm(joined[:, None] - joined, axis=2)
    kernel = np.exp(-((gaps / np.median(gaps[np.triu_indices(12, 1)])) ** 2) / 2)
    pairs = [(i, j) for i in range(6) for j in range(6)]
    inner = sum(kernel[i, j] + kernel[6 + i, 6 + j] for i, j in pairs if i != j)
    cross = sum(kernel[i, 6 + j] for i, j in pairs)
    assert mmd_drift(a, b, permutations=1).statistic == pytest.approx(inner / 30 - 2 * cross / 36)


def test_a_stream_that_rises_is_told_soon_and_a_steady_one_never():
    generator = np.random.default_rng(0)
    steady = PageHinkley(tolerance=0.5, threshold=20)
    assert not any(steady.update(v) for v in generator.standard_normal(3000))
    rising = PageHinkley(tolerance=0.5, threshold=20)
    for value in np.concatenate([generator.standard_normal(500), 2 + generator.standard_normal(200)]):
        rising.update(value)
    assert len(rising.drifts) == 1
    assert 500 <= rising.drifts[0] < 530


def test_energy_is_the_log_sum_of_logits():
    network = linear(features=4, classes=3)
    x = np.random.default_rng(0).uniform(0, 1, (5, 4)).astype(np.float32)
    z = network.logits(x).astype(float)
    np.testing.assert_allclose(Energy(model(network), 2.0).scores(x), -2 * np.log(np.exp(z / 2).sum(axis=1)), rtol=1e-6)


def test_bad_input_is_named():
    for call, words in (
        (lambda: ks_drift(np.zeros((3, 2)), np.zeros((3, 1))), "two samples of the same features expected"),
        (lambda: ks_drift([1.0, np.nan], [1.0]), "finite values"),
        (lambda: mmd_drift([1.0, 2.0], [1.0]), "2 samples or more on each side"),
        (lambda: PageHinkley().update(np.nan), "value number 0 of the stream"),
        (lambda: PageHinkley(threshold=0), "tolerance, threshold, patience"),
        (lambda: Energy(None, 0.0), "temperature expects"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
