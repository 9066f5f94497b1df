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
    "bytes": ((X * 255).astype(np.uint8), Y, {}, "x expects real numbers, got uint8; cast it, and scale it"),
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
            lambda logits: logits[:, :, None],
            r"\(16, classes\), or one logit or label .* got shape \(16, 3, 1\)",
        ),
        (lambda logits: logits[:-1], r"for 16 inputs, got shape \(15, 3\)"),
        (
            lambda logits: 1 / (1 + np.exp(-logits[:, 0])),
            r"one number from 0 to 1 a sample, shape \(16,\): a prob.*say which",
        ),
        (lambda logits: logits.argmax(axis=1), r"returns labels .* of how many classes; wrap\(model, classes=10\)"),
        (lambda logits: logits * np.nan, "finite logits for clean inputs"),
    ],
    ids=["images", "one row less", "sigmoid", "labels", "nan"],
)
def test_a_model_that_does_not_fit_is_refused_with_what_mends_it(output, message):
    network = linear(classes=3)
    network.logits = lambda inputs: output(ClosedForm.pullback(network, inputs, np.zeros_like)[0])
    with pytest.raises(InvalidModel, match=message):
        evaluate(model(network), X, Y, [0.1])


def test_values_that_rounding_has_moved_over_the_bounds_are_moved_back():
    network = linear(classes=3)
    low, high = -6 / 7, 2.0
    x = np.full((4, 12), np.float32(low))
    x[:, 0] = np.nextafter(np.float32(high), np.float32(3))
    y = network.logits(x).argmax(axis=1)
    result = PGD(steps=1)(model(network, bounds=(low, high)), x, y, epsilons=[0.0])
    assert result.adversarials.max() == np.float32(high)
    with pytest.raises(InvalidInput, match=r"bounds \[-0.857142857, 2\], got \[-0.85714\d*, 2.0001\d*\]"):
        PGD(steps=1)(model(network, bounds=(low, high)), np.where(x > 1, x + 1e-4, x), y, epsilons=[0.0])


def test_a_model_in_single_precision_refuses_double_with_a_remedy():
    network = linear(classes=3)

    def logits(inputs):
        raise RuntimeError("expected Float but got Double")

    network.logits = logits
    with pytest.raises(InvalidInput, match=r"got Double; if the model computes in float32, cast x: x.astype"):
        PGD()(model(network), X.astype(np.float64), Y, epsilons=[0.1])
