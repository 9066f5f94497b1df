"""Metrics against slow versions and, where it is installed, scikit-learn; batches in any division give one value."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import Tensor
from mindscope.framework.train import metrics

try:
    import sklearn.metrics as witness
except ModuleNotFoundError:
    witness = None

MAKE = {
    "accuracy": metrics.Accuracy,
    "top-2": lambda: metrics.TopKCategoricalAccuracy(2),
    "confusion": lambda: metrics.ConfusionMatrix(4),
    "precision": metrics.Precision,
    "recall": lambda: metrics.Recall("macro", 4),
    "f1": lambda: metrics.F1("weighted"),
    "perplexity": lambda: metrics.Perplexity(ignore_label=3),
}


def scored(rows=40, classes=4, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    return generator.standard_normal((rows, classes)) + 1.5 * np.eye(classes)[labels], labels


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(1, 39), max_size=4, unique=True))
def test_batches_in_any_division_give_one_value(make, cuts):
    scores, labels = scored()
    whole, parts = make(), make()
    whole.update(scores, labels)
    for x, y in zip(np.split(scores, sorted(cuts)), np.split(labels, sorted(cuts)), strict=True):
        parts.update(Tensor(x), Tensor(y))
    np.testing.assert_allclose(parts.eval(), whole.eval(), rtol=1e-12)
    whole.clear()
    with pytest.raises(ValueError, match="has seen no batch"):
        whole.eval()


def test_accuracy_counts_rows_and_multilabel_rows_as_a_whole():
    metric = metrics.Accuracy()
    metric.update([[0.1, 0.9], [0.8, 0.2]], [1, 1])
    metric.update([1, 0], [1, 0])
    assert metric.eval() == 0.75
    metric.clear()
    metric.update([[0.1, 0.9]], np.array([[0.0, 1.0]]))
    assert metric.eval() == 1.0
    labels = metrics.Accuracy("multilabel")
    labels.update([[1, 0, 1], [1, 1, 0]], [[1, 0, 1], [1, 0, 0]])
    assert labels.eval() == 0.5


def test_the_right_class_is_looked_for_among_the_first():
    metric = metrics.TopKCategoricalAccuracy(2)
    metric.update([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]], [1, 0, 2])
    assert metric.eval() == pytest.approx(1 / 3)
    assert metrics.metric_of("top_1_accuracy").k == 1


def test_a_confusion_matrix_has_targets_as_rows():
    metric = metrics.ConfusionMatrix()
    metric.update([0, 1, 1], [0, 0, 1])
    np.testing.assert_array_equal(metric.eval(), [[1, 1], [0, 1]])
    metric.update([2], [2])
    np.testing.assert_array_equal(metric.eval(), [[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    shares = metrics.ConfusionMatrix(4, "target")
    shares.update([0, 1, 1], [0, 0, 1])
    np.testing.assert_array_equal(shares.eval(), [[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0] * 4, [0] * 4])


@pytest.mark.skipif(witness is None, reason="scikit-learn is not installed; it is the second witness")
@pytest.mark.parametrize("average", ["none", "macro", "micro", "weighted"])
@pytest.mark.parametrize("kind", ["Precision", "Recall", "F1"])
def test_scores_of_classes_agree_with_scikit_learn(kind, average):
    scores, labels = scored()
    metric = getattr(metrics, kind)(average)
    metric.update(scores, labels)
    function = {"Precision": "precision_score", "Recall": "recall_score", "F1": "f1_score"}[kind]
    expected = getattr(witness, function)(labels, scores.argmax(1), average=None if average == "none" else average)
    np.testing.assert_allclose(metric.eval(), expected, rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_the_share_of_pairs_in_the_right_order(pairs):
    scores, targets = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs])
    metric = metrics.RocAuc()
    metric.update(scores, targets)
    if targets.all() or not targets.any():
        with pytest.raises(ValueError, match="targets of both kinds"):
            metric.eval()
        return
    wins = [(a > b) + 0.5 * (a == b) for a in scores[targets] for b in scores[~targets]]
    assert metric.eval() == pytest.approx(np.mean(wins), rel=1e-12)
    wrong, right, _ = metric.curve()
    assert np.trapezoid(right, wrong) == pytest.approx(metric.eval(), rel=1e-12)


def test_errors_are_means_over_elements():
    absolute, squared = metrics.MAE(), metrics.MSE()
    for metric in (absolute, squared):
        metric.update(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
        metric.update(np.array([[5.0]]), np.array([[5.0]]))
    assert absolute.eval() == 1.0
    assert squared.eval() == pytest.approx(5 / 3)


def test_perplexity_of_no_knowledge_is_the_number_of_classes():
    metric = metrics.Perplexity()
    metric.update(np.zeros((2, 3, 7)), np.zeros((2, 3), int))
    assert metric.eval() == pytest.approx(7.0)
    metric.clear()
    metric.update(np.array([[1e4, 0.0]]), [0])
    assert metric.eval() == 1.0
    scores, labels = scored()
    metric.clear()
    metric.update(scores, labels)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert math.log(metric.eval()) == pytest.approx(-np.log(shares[np.arange(40), labels]).mean())


def test_losses_are_weighted_by_their_rows():
    metric = metrics.Loss()
    metric.update(Tensor(1.0), 3)
    metric.update(2.0, 1)
    assert metric.eval() == 1.25


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.metric_of("acuracy"), "did you mean 'accuracy'"),
        (lambda: metrics.metric_of("xyz"), "no metric 'xyz'; there are F1, acc"),
        (lambda: metrics.Accuracy("regression"), "classification or multilabel, got 'regression'"),
        (lambda: metrics.Accuracy().update([[0.1, 0.9]], [1, 1]), r"for targets \(2,\), got \(1, 2\)"),
        (lambda: metrics.TopKCategoricalAccuracy(0), "k of 1 or more, got 0"),
        (lambda: metrics.ConfusionMatrix(2).update([2], [0]), "classes from 0 to 1, got 0 to 2"),
        (lambda: metrics.Precision("mean"), "none, macro, micro or weighted, got 'mean'"),
        (lambda: metrics.MAE().update([1.0], [1.0, 2.0]), r"of one shape, got \(1,\) and \(2,\)"),
        (lambda: metrics.RocAuc().update([0.5], [2]), "which are 0 or 1"),
        (lambda: metrics.Perplexity().update([0.5], [0]), r"logits \(..., classes\) for targets \(1,\), got \(1,\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
