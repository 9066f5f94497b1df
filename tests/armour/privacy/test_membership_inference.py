"""Membership attacks against distributions whose answer is known, and on a model that has memorised."""

from statistics import NormalDist

import numpy as np
import pytest
from mindscope.armour import InvalidInput
from mindscope.armour.model.classifier import cross_entropy, true_class_margin
from mindscope.armour.privacy import (
    Shadows,
    lira_attack,
    lira_scores,
    measure_leakage,
    shadow_attack,
    threshold_attack,
    train_shadows,
)
from mindscope.armour.privacy.membership_inference import fit_logistic

from tests.armour.networks import ClosedForm, model

NORMAL = NormalDist()


def memorising(x, y, seed):
    """A linear model of more features than samples, which fits its training set without error."""
    del seed
    flat = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    target = np.where(np.eye(2)[y] > 0, 4.0, -4.0)
    weights = np.linalg.lstsq(flat, target, rcond=None)[0]
    return model(ClosedForm(weights[:-1], weights[-1]), bounds=(-20.0, 20.0))


def population(n=60, features=200):
    generator = np.random.default_rng(2)
    x = generator.standard_normal((n, features))
    return x, (x[:, 0] + generator.standard_normal(n) > 0).astype(np.int64)


def test_lira_on_two_normals_has_the_closed_form_rates():
    generator = np.random.default_rng(0)
    n, models = 200_000, 8
    is_member = np.zeros((models, n), bool)
    is_member[: models // 2] = True
    truth = np.arange(n) % 2 == 0
    shadows = np.where(is_member, 1.0, 0.0) + np.array([-1, 1, -1, 1, 1, -1, 1, -1])[:, None] * np.sqrt(0.75)
    observed = generator.standard_normal(n) + truth
    scores = lira_scores(observed, shadows, is_member)
    found = measure_leakage(scores[truth], scores[~truth])
    assert found.tpr_at(0.01) == pytest.approx(0.0924, abs=0.004)
    assert found.tpr_at(0.001) == pytest.approx(1 - NORMAL.cdf(NORMAL.inv_cdf(0.999) - 1), abs=0.003)
    assert found.auc == pytest.approx(NORMAL.cdf(1 / np.sqrt(2)), abs=0.003)
    assert found.advantage == pytest.approx(2 * NORMAL.cdf(0.5) - 1, abs=0.006)
    offline = lira_scores(observed, shadows, is_member, mode="offline")
    assert measure_leakage(offline[truth], offline[~truth]).tpr_at(0.01) == pytest.approx(0.0924, abs=0.004)


def test_each_sample_has_its_own_variance_when_there_are_models_enough():
    generator = np.random.default_rng(1)
    is_member = np.arange(400)[:, None] < np.full(3, 200)
    scale = np.array([0.1, 1.0, 10.0])
    margins = np.where(is_member, scale, 0.0) + generator.standard_normal((400, 3)) * scale
    scores = lira_scores(2 * scale, margins, is_member)
    np.testing.assert_allclose(scores, 0.5 * (2.0**2 - 1.0**2), atol=0.6)


def test_rates_of_a_few_scores_by_hand_and_equal_scores_together():
    found = measure_leakage([3.0, 2.0, 1.0], [2.0, 0.0])
    np.testing.assert_allclose(found.false_positive_rates, [0, 0, 0.5, 0.5, 1])
    np.testing.assert_allclose(found.true_positive_rates, [0, 1 / 3, 2 / 3, 1, 1])
    assert found.tpr_at(0.5) == 1.0
    assert measure_leakage(np.zeros(5), np.zeros(9)).auc == 0.5
    assert "TPR 100.00% [29.24%, 100.00%] at 50 % FPR" in str(found)


def test_a_rate_of_less_than_one_sample_is_refused():
    found = measure_leakage(np.arange(300.0), np.arange(300.0) - 100)
    assert found.reported_rates() == (0.01,)
    with pytest.raises(InvalidInput, match=r"rate of 0.001 is less than one of 300 others; the smallest .* is 0.00333"):
        found.tpr_at(0.001)
    assert measure_leakage(np.arange(1000.0), np.arange(1000.0)).reported_rates() == (0.001, 0.01)
    assert measure_leakage(np.arange(30.0), np.arange(30.0)).reported_rates() == (1 / 30,)


def delong(inside, outside):
    """The interval from all pairs of scores, as the paper has it."""
    ahead = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    variance = ahead.mean(axis=1).var(ddof=1) / len(inside) + ahead.mean(axis=0).var(ddof=1) / len(outside)
    reach = NORMAL.inv_cdf(0.975) * np.sqrt(variance)
    return ahead.mean() - reach, ahead.mean() + reach


def test_the_interval_of_the_area_is_that_of_all_pairs_with_equal_scores_too():
    generator = np.random.default_rng(3)
    inside, outside = generator.normal(1, 1, 40).round(1), generator.normal(0, 1, 70).round(1)
    np.testing.assert_allclose(measure_leakage(inside, outside).auc_interval(), delong(inside, outside), rtol=1e-12)


def test_intervals_hold_the_truth_as_often_as_they_say():
    generator = np.random.default_rng(4)
    truth = NORMAL.cdf(1 / np.sqrt(2))
    held = np.zeros(2)
    for _ in range(300):
        found = measure_leakage(generator.normal(1, 1, 60), generator.normal(0, 1, 60))
        ends = found.auc_interval(), found.advantage_interval()
        held += [
            low <= value <= high for (low, high), value in zip(ends, (truth, 2 * NORMAL.cdf(0.5) - 1), strict=True)
        ]
    assert (held / 300 > [0.92, 0.95]).all()


def test_a_separation_without_error_is_not_certain():
    low, high = measure_leakage(np.arange(10.0) + 20, np.arange(10.0)).auc_interval()
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10)), 1.0)


def test_margins_do_not_round_where_probabilities_do():
    logits = np.array([[1000.0, 0.0, -5.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(true_class_margin(logits, [0, 1]), [1000 - np.log1p(np.exp(-5)), -np.log(2)])
    np.testing.assert_allclose(cross_entropy(logits, [1, 2]), [1000.0, np.log(3)])


def test_every_attack_recognises_the_members_of_a_model_that_memorised():
    x, y = population()
    truth = np.arange(60) < 30
    target = memorising(x[truth], y[truth], 0)
    shadows = train_shadows(memorising, x, y, models=16, seed=1)
    assert (shadows.is_member.sum(axis=0) == 8).all()
    found = {
        "threshold": threshold_attack(target, (x[truth], y[truth]), (x[~truth], y[~truth])),
        "shadow": shadow_attack(target, x, y, truth, shadows),
        "lira": lira_attack(target, x, y, truth, shadows),
        "lira offline": lira_attack(target, x, y, truth, shadows, mode="offline"),
    }
    assert {name: leakage.auc > 0.8 for name, leakage in found.items()} == dict.fromkeys(found, True)


def test_no_attack_finds_members_where_there_are_none():
    x, y = population(400)
    fair = memorising(x[200:300], y[200:300], 0)  # saw none of the samples below
    assert abs(threshold_attack(fair, (x[:100], y[:100]), (x[100:200], y[100:200])).auc - 0.5) < 0.15


def test_the_classifier_reaches_the_maximum_of_its_likelihood():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((3000, 3))
    positive = generator.random(3000) < 1 / (1 + np.exp(-(x @ [2.0, -1.0, 0.0] + 0.5)))
    odds = fit_logistic(x, positive)
    np.testing.assert_allclose(odds(np.eye(3)) - odds(np.zeros((1, 3))), [2.0, -1.0, 0.0], atol=0.25)
    with pytest.raises(InvalidInput, match="both classes, got one"):
        fit_logistic(x, np.ones(3000, bool))


def test_bad_input_is_named():
    x, y = population()
    with pytest.raises(InvalidInput, match="even number of 2 or more, got 3"):
        train_shadows(memorising, x, y, models=3)
    with pytest.raises(InvalidInput, match="members expects one score or more and no NaN, got 0"):
        measure_leakage([], [1.0])
    with pytest.raises(InvalidInput, match="from 0 to 1, got 2"):
        measure_leakage([1.0], [1.0]).tpr_at(2)
    with pytest.raises(InvalidInput, match="one shadow model or more on each side"):
        lira_scores(np.zeros(3), np.zeros((4, 3)), np.ones((4, 3), bool))
    with pytest.raises(InvalidInput, match=r"expect \(models, 3\)"):
        lira_scores(np.zeros(3), np.zeros((4, 2)), np.ones((4, 2), bool))
    with pytest.raises(InvalidInput, match="y expects classes 0 to 1, got 0 to 2"):
        true_class_margin(np.zeros((3, 2)), [0, 1, 2])
    shadows = Shadows(np.zeros((2, 60, 2)), np.arange(2)[:, None] == np.arange(60) % 2)
    with pytest.raises(InvalidInput, match="is_member expects 60 booleans"):
        lira_attack(memorising(x, y, 0), x, y, y, shadows)
