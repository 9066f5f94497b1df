"""Metrics on models and answers whose numbers stand in closed form."""

import numpy as np
import pytest
from mindscope.armour import FGSM, PGD, InvalidInput, evaluate, wrap
from mindscope.armour.distances.boundary_steps import dual_length
from mindscope.armour.metrics import (
    attack_quality,
    clever,
    defence_quality,
    empirical_robustness,
    query_defence,
    structural_similarity,
)
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from scipy.stats import weibull_max

from tests.armour.frameworks import MAKE, inputs, logits
from tests.armour.networks import ClosedForm, data, linear, model, perceptron


def slow_similarity(a, b, width):
    """One window after the other, as the paper writes it."""
    offsets = np.arange(-5, 6)
    weights = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2 * 1.5**2))
    weights /= weights.sum()
    c1, c2 = (0.01 * width) ** 2, (0.03 * width) ** 2
    found = []
    for i in range(5, a.shape[0] - 5):
        for j in range(5, a.shape[1] - 5):
            p, q = (image[i - 5 : i + 6, j - 5 : j + 6] for image in (a, b))
            mean_p, mean_q = (weights * p).sum(), (weights * q).sum()
            var_p, var_q = (weights * (p - mean_p) ** 2).sum(), (weights * (q - mean_q) ** 2).sum()
            both = (weights * (p - mean_p) * (q - mean_q)).sum()
            share = (2 * mean_p * mean_q + c1) / (mean_p**2 + mean_q**2 + c1)
            found.append(share * (2 * both + c2) / (var_p + var_q + c2))
    return np.mean(found)


def test_similarity_is_the_papers():
    generator = np.random.default_rng(0)
    a = generator.uniform(-1, 1, (3, 2, 16, 14))
    b = np.clip(a + generator.normal(0, 0.3, a.shape), -1, 1)
    expected = [np.mean([slow_similarity(a[n, c], b[n, c], 2.0) for c in range(2)]) for n in range(3)]
    np.testing.assert_allclose(structural_similarity(a, b, (-1.0, 1.0)), expected, rtol=1e-9)
    np.testing.assert_allclose(structural_similarity(a, a), 1.0)
    assert structural_similarity((a + 1) / 2, (1 - a) / 2).max() < 0
    small = generator.random((4, 8, 8)).astype(np.float32)  # smaller than a window
    assert (np.diff([structural_similarity(small, small + s).mean() for s in (0.0, 0.1, 0.3)]) < 0).all()
    assert structural_similarity(small.reshape(4, 64), small.reshape(4, 64)).shape == (4,)
    with pytest.raises(InvalidInput, match="expect one shape"):
        structural_similarity(a, a[:1])


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_the_quality_of_an_attack_by_its_definitions(make):
    x = inputs(40)
    y = logits(x).argmax(axis=1)
    y[:4] = (y[:4] + 1) % 3
    wrapped = wrap(make())
    result = PGD()(wrapped, x, y, epsilons=[0.0, 0.15])
    nothing, found = attack_quality(wrapped, x, y, result)
    assert nothing.misclassification_rate == 0
    assert np.isnan(nothing.adversarial_confidence)
    assert np.isnan(nothing.distortion["l2"])
    rows = np.flatnonzero(result.success[1])
    assert 0 < len(rows) < 36
    assert found.misclassification_rate == len(rows) / 36
    examples = np.asarray(result.adversarials[1])[rows]
    shares = softmax(logits(examples).astype(float), axis=1)
    assert found.adversarial_confidence == pytest.approx(shares.max(axis=1).mean(), abs=1e-5)
    assert found.true_confidence == pytest.approx(shares[range(len(rows)), y[rows]].mean(), abs=1e-5)
    second = np.sort(shares, axis=1)[:, 1]
    assert found.noise_tolerance == pytest.approx((shares.max(axis=1) - second).mean(), abs=1e-5)
    flat, change = x[rows].reshape(len(rows), -1).astype(float), (examples - x[rows]).reshape(len(rows), -1)
    for norm, order in (("l2", 2), ("linf", np.inf), ("l1", 1), ("l0", 0)):
        ratios = np.linalg.norm(change, order, axis=1) / np.linalg.norm(flat, order, axis=1)
        assert found.distortion[norm] == pytest.approx(ratios.mean(), rel=1e-4)
    assert found.structural_similarity == pytest.approx(structural_similarity(x[rows], examples).mean())
    assert found.abbreviated("l1")["ALDp"] == found.distortion["l1"]
    assert list(found.abbreviated("l2")) == ["MR", "ACAC", "ACTC", "ALDp", "ASS", "NTE"]
    assert nothing.abbreviated("l2") == {"MR": 0.0}


def test_every_outcome_of_an_evaluation_has_the_quality_of_its_examples():
    network = perceptron()
    x, y = data(network, 40)
    clean, attacked, *_ = evaluate(model(network), x, y, [0.15], attacks=["pgd"], norm="l2").outcomes
    (found,) = attack_quality(model(network), x, y, PGD(norm="l2")(model(network), x, y, epsilons=[0.15]))
    assert attacked.details["metrics"] == found.abbreviated("l2")
    assert "metrics" not in clean.details


def test_a_defence_by_its_definitions():
    raw = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.5, 0.4, 0.1]])
    defended = np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.4, 0.5, 0.1]])
    y = np.array([0, 1, 1, 2, 2])  # right twice, spoiled, mended, right twice, wrong twice
    found = defence_quality(raw, defended, y)
    assert (found.rectify_ratio, found.sacrifice_ratio) == (0.2, 0.2)
    assert found.accuracy_variance == pytest.approx(found.rectify_ratio - found.sacrifice_ratio)
    assert found.confidence_variance == pytest.approx(0.2)
    expected = np.mean([jensenshannon(raw[row], defended[row]) ** 2 for row in (0, 3)])
    assert found.output_stability == pytest.approx(expected)
    same = defence_quality(raw, raw, y)
    assert (same.accuracy_variance, same.confidence_variance, same.output_stability) == (0, 0, 0)
    assert np.isnan(defence_quality(raw, defended, np.array([1, 0, 2, 0, 2])).output_stability)
    with pytest.raises(InvalidInput, match="apply softmax"):
        defence_quality(raw * 3, defended, y)
    with pytest.raises(InvalidInput, match=r"\(n, classes\) twice"):
        defence_quality(raw, defended, y[:2])


def test_a_defence_against_queries_by_its_definitions():
    network = perceptron()
    x, y = data(network, 60)
    easy = PGD(steps=40)(model(network), x, y, epsilons=[0.2])
    hard = PGD(steps=40)(model(network), x, y, epsilons=[0.05])
    options = {"benign_flags": [1, 0, 0, 0], "raw_seconds": [1.0, 3.0], "defended_seconds": [2.0, 4.0, 3.0]}
    found = query_defence(easy, hard, 80, **options)
    assert found.query_count_variance == pytest.approx((hard.queries.mean() - easy.queries.mean()) / 80)
    assert found.success_variance == pytest.approx(easy.success.mean() - hard.success.mean())
    assert found.success_variance > 0
    assert (found.false_positive_rate, found.response_time_variance) == (0.25, 0.5)
    stuck = FGSM()(model(network), x, y, epsilons=[1e-6])
    assert query_defence(easy, stuck, int(stuck.queries.max()), **options).query_count_variance <= 0
    whole = PGD(steps=40)(model(network), x, y, epsilons=[1e-6])
    assert query_defence(stuck, whole, 40, **options).query_count_variance == 1.0
    with pytest.raises(InvalidInput, match="one benign query or more"):
        query_defence(easy, hard, 80, **{**options, "benign_flags": []})


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_on_a_linear_model_clever_is_the_margin_over_the_dual_length(norm):
    network = linear(classes=4, dtype=np.float64)
    x, _ = data(network, 12, dtype=np.float64)
    values = network.logits(x)
    own = values.argmax(axis=1)
    exact = np.full(12, np.inf)
    for other in range(4):
        slope = (network.weight[:, own] - network.weight[:, [other]]).T
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (values[np.arange(12), own] - values[:, other]) / dual_length(norm, slope)
        exact = np.where(own == other, exact, np.minimum(exact, distance))
    found = clever(model(network), x, radius=9.0, norm=norm, batches=3, points=4)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    np.testing.assert_allclose(clever(model(network), x, radius=exact.min() / 2, norm=norm, batches=3), exact.min() / 2)


class Quadratic(ClosedForm):
    """Two classes whose lead falls with the square of the distance from the origin: 1 - |x|^2."""

    def __init__(self):
        self.calls = 0

    def logits(self, x):
        return np.stack([1 - (x * x).sum(axis=1), np.zeros(len(x))], axis=1).astype(x.dtype)

    def pullbacks(self, x, cotangents):
        values = self.logits(x)
        return values, [weight[:, :1] * -2 * x for weight in cotangents(values)]


def test_where_gradients_differ_the_end_of_their_distribution_is_found():
    """The gradient has the length 2 |x|; over the ball of radius 0.5 its end is 1, the lead at the origin 1."""
    quadratic = model(Quadratic(), bounds=(-1.0, 1.0))
    found = clever(quadratic, np.zeros((1, 6)), radius=0.5, batches=30, points=20)
    assert found[0] == pytest.approx(0.5)  # cut by the radius
    slope = 2 * np.linalg.norm(np.array([0.4, 0.3])) + 1.0  # at the edge of the ball
    beside = clever(quadratic, np.array([[0.4, 0.3]]), radius=0.5, batches=50, points=40)[0]
    assert beside == pytest.approx(0.75 / slope, rel=0.03)
    maxima = weibull_max.rvs(3.0, loc=2.0, scale=0.3, size=400, random_state=0)
    from mindscope.armour.metrics.robustness_estimates import _distance

    assert _distance(1.0, maxima) == pytest.approx(1 / 2.0, rel=0.03)


def test_clever_says_what_it_expects():
    network = linear()
    for wrong in ({"radius": 0.0}, {"radius": 1.0, "batches": 1}, {"radius": 1.0, "norm": "l0"}):
        with pytest.raises(InvalidInput, match="clever expects one input or more, radius above 0"):
            clever(model(network), np.zeros((2, 12), np.float32), **wrong)


def test_empirical_robustness_of_a_linear_model():
    network = linear(dtype=np.float64)
    x, y = data(network, 30, low=0.4, high=0.6, dtype=np.float64)
    slope = np.linalg.norm(network.weight[:, 1] - network.weight[:, 0])
    exact = np.abs(np.diff(network.logits(x), axis=1)[:, 0]) / slope / np.linalg.norm(x, axis=1)
    assert empirical_robustness(model(network), x, y) == pytest.approx(exact.mean(), rel=1e-4)
    y[0] = 1 - y[0]
    assert empirical_robustness(model(network), x, y) == pytest.approx(exact[1:].sum() / 30, rel=1e-4)
    zero = np.zeros((2, 12))
    labels = network.logits(zero).argmax(axis=1)
    assert np.isnan(empirical_robustness(model(network), zero, labels))
