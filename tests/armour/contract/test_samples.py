"""Bad input: one error that says what was expected and what came, before anything is attacked."""

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, InvalidModel, evaluate

from tests.armour.networks import ClosedForm, data, linear, model

NETWORK = linear(classes=3)
X, Y = data(NETWORK)


def with_value(value):
    x = X.copy()
    x[1, 2] = value
    return x


BAD = {
    "nan": (with_value(np.nan), Y, {}, "x expects finite values, got 1 NaN"),
    "outside": (
        with_value(1.5),
        Y,
        {},
        r"within the model's bounds \[0, 1\], got .* 1.5\]; scale x, or name its bounds",
    ),
    "bytes": ((X * 255).astype(np.uint8), Y, {}, "float32 or float64, got uint8"),
    "no samples": (X[:0], Y[:0], {}, r"one sample or more, shape \(n, ...\), got \(0, 12\)"),
    "one sample without batch axis": (X[0], Y[:1], {}, r"got \(12,\)"),
    "label too large": (X, np.full(60, 3), {}, "classes 0 to 2, as the model has 3 logits; got 3 to 3"),
    "label negative": (X, Y - 5, {}, "labels expects classes 0 to 2"),
    "labels as floats": (X, Y.astype(float), {}, "integer classes, got dtype float64"),
    "labels one-hot": (X, np.eye(3, dtype=int)[Y], {}, r"shape \(60,\), got \(60, 3\)"),
    "too few labels": (X, Y[:-1], {}, r"shape \(60,\), got \(59,\)"),
    "target out of range": (X, Y, {"targets": np.full(60, 7)}, "targets expects classes 0 to 2"),
    "wrong width": (np.zeros((2, 5), np.float32), Y[:2], {}, r"cannot be called with x of shape \(2, 5\)"),
    "epsilon negative": (X, Y, {"epsilons": [0.1, -0.1]}, "finite numbers of 0 or more, got -0.1"),
    "epsilon nan": (X, Y, {"epsilons": [float("nan")]}, "got nan"),
    "no epsilon": (X, Y, {"epsilons": []}, "one budget or more, got none"),
    "seed": (X, Y, {"seed": -1}, "seed expects an integer of 0 or more, got -1"),
    "batch size": (X, Y, {"batch_size": 0}, "batch_size expects 1 or more, got 0"),
    "margin": (X, Y, {"margin": -1.0}, "margin expects a finite number of 0 or more"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_refused_before_any_gradient(case):
    x, y, options, message = case
    gradients = []
    network = linear(classes=3)
    network.pullback = lambda *arguments: gradients.append(1) or ClosedForm.pullback(network, *arguments)
    network.logits = lambda inputs: ClosedForm.pullback(network, inputs, np.zeros_like)[0]
    with pytest.raises(InvalidInput, match=message):
        PGD()(model(network), x, y, **({"epsilons": [0.1]} | options))
    assert not gradients


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            lambda logits: np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True),
            "must return logits, got rows that",
        ),
        (
            lambda logits: logits[:, :1],
            r"logits \(16, classes\) with 2 classes or more for 16 inputs, got shape \(16, 1\)",
        ),
        (lambda logits: logits.sum(axis=1), r"got shape \(16,\)"),
        (lambda logits: logits * np.nan, "finite logits for clean inputs"),
    ],
    ids=["probabilities", "one column", "scores", "nan"],
)
def test_a_model_that_returns_no_logits_is_refused(output, message):
    network = linear(classes=3)
    network.logits = lambda inputs: output(ClosedForm.pullback(network, inputs, np.zeros_like)[0])
    with pytest.raises(InvalidModel, match=message):
        evaluate(model(network), X, Y, [0.1])


def test_a_model_in_single_precision_refuses_double_with_a_remedy():
    network = linear(classes=3)

    def logits(inputs):
        raise RuntimeError("expected Float but got Double")

    network.logits = logits
    with pytest.raises(InvalidInput, match=r"got Double; if the model computes in float32, cast x: x.astype"):
        PGD()(model(network), X.astype(np.float64), Y, epsilons=[0.1])
