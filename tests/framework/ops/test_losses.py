"""Losses where formulas meet: all alignments enumerated, weights, ignored labels, infinities."""

import itertools
import math

import numpy as np
import pytest
from mindscope.framework import DtypeError, ShapeError, Tensor, ops


def _by_enumeration(log_p, target):
    """The probability of every path that collapses to the target, summed."""
    steps, classes = log_p.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        collapsed = [c for c, _ in itertools.groupby(path) if c != 0]
        if collapsed == list(target):
            total += math.exp(sum(log_p[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("target", [(), (1,), (1, 2), (1, 1), (2, 1, 2)], ids=str)
def test_ctc_sums_over_every_alignment(target):
    x = np.random.default_rng(len(target)).standard_normal((5, 3))
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    padded = np.array([[*target, *(0,) * (4 - len(target))]])
    found = ops.ctc_loss(Tensor(log_p[:, None]), Tensor(padded), Tensor([5]), Tensor([len(target)]), reduction="sum")
    assert found.item() == pytest.approx(_by_enumeration(log_p, target))


def test_ctc_of_a_target_that_does_not_fit_is_infinite_or_0_without_a_gradient():
    log_p = Tensor(np.log(np.full((2, 1, 3), 1 / 3)), requires_grad=True)
    arguments = (log_p, Tensor([[1, 1]]), Tensor([2]), Tensor([2]))
    assert ops.ctc_loss(*arguments).item() == math.inf
    loss = ops.ctc_loss(*arguments, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0.0
    assert not log_p.grad.numpy().any()


def test_an_ignored_label_counts_nothing_even_where_its_probability_is_0():
    log_p = Tensor(np.array([[0.0, -math.inf], [-math.inf, 0.0]]), requires_grad=True)
    loss = ops.nll(log_p, Tensor([0, -100]))
    loss.backward()
    assert loss.item() == 0.0
    assert log_p.grad.tolist() == [[-1.0, 0.0], [0.0, 0.0]]
    assert np.isnan(ops.cross_entropy(Tensor(np.ones((2, 2))), Tensor([-100, -100])).item())


def test_probabilities_as_labels_agree_with_labels():
    x = Tensor(np.random.default_rng(0).standard_normal((4, 3)))
    labels = Tensor([0, 2, 1, 1])
    hot = ops.one_hot(labels, 3, dtype="float64")
    for smoothing in (0.0, 0.3):
        soft = ops.cross_entropy(x, hot, label_smoothing=smoothing)
        assert soft.item() == pytest.approx(ops.cross_entropy(x, labels, label_smoothing=smoothing).item())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.cross_entropy(x, Tensor([0])), ShapeError, r"logits \(2, 3\) and labels \(1,\)"),
        (
            lambda x: ops.cross_entropy(x, Tensor([True, False])),
            DtypeError,
            "labels or probabilities, got bool",
        ),
        (lambda x: ops.cross_entropy(x, x[:, :2]), ShapeError, "probabilities expect the shape of the logits"),
        (lambda x: ops.nll(x, Tensor([0])), ShapeError, "nll expects log-probabilities"),
        (lambda x: ops.l1_loss(x, x[0]), ShapeError, "l1_loss expects equal shapes"),
        (lambda x: ops.bce(x, x[0]), ShapeError, "bce expects equal shapes"),
        (lambda x: ops.mse(x, x, reduction="all"), ValueError, "no reduction 'all'; use 'mean', 'sum' or 'none'"),
        (lambda x: ops.ctc_loss(x, x, x, x), ShapeError, "ctc_loss expects log-probabilities"),
        (lambda x: ops.group_norm(x, 2), ShapeError, "channels in multiples of 2"),
        (lambda x: ops.glu(x), ShapeError, "an even length"),
    ],
)
def test_errors_say_what_was_expected(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(np.ones((2, 3))))
