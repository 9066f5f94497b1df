"""Bounds of each feature make budgets shares of their ranges, and adversarial rows are rows that could exist."""

import numpy as np
import pytest
from mindscope.armour import PGD, Features, InvalidInput, Normalization, Square, evaluate, make_attack, wrap
from mindscope.armour.array_api import to_numpy
from mindscope.armour.metrics import clever
from mindscope.framework import Parameter, nn

from tests.armour import frameworks
from tests.armour.attacks.cases import light
from tests.armour.frameworks import BIAS, MAKE, inputs

MIDDLE = frameworks.logits(inputs()).mean(axis=0)  # taken away, so that each class is some input's


def logits(x):
    """What the network must return."""
    return frameworks.logits(x) - MIDDLE


def network(framework, dtype=np.float32):
    """The network, centred."""
    raw = MAKE[framework](dtype)
    if framework == "engine":
        raw.bias = Parameter((BIAS - MIDDLE).astype(dtype))
    else:
        raw[-1].bias.data -= raw[-1].bias.data.new_tensor(MIDDLE)
    return raw


def engine(dtype=np.float32):
    """The centred network as a cell."""
    return network("engine", dtype)


MEAN, STD = np.array([0.2, 0.5, 0.7]), np.array([0.25, 0.5, 0.3])
X = inputs(30)[:, :, None]  # (n, 3 channels, 1, 4)
Y = logits(X).argmax(axis=1)
STANDARD = ((X - MEAN.reshape(3, 1, 1)) / STD.reshape(3, 1, 1)).astype(np.float32)
BOUNDS = (-MEAN / STD, (1 - MEAN) / STD)
BACK = Normalization(tuple(-MEAN / STD), tuple(1 / STD))  # from standardised data to that of the network


@pytest.mark.parametrize("framework", MAKE)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_bounds_of_each_channel_give_the_budget_in_pixels(framework, norm):
    epsilon = {"linf": 8 / 255, "l2": 0.2}[norm]
    pixels = PGD(norm)(wrap(network(framework)), X, Y, epsilons=[epsilon])
    model = wrap(network(framework), bounds=BOUNDS, preprocessing=BACK)
    found = PGD(norm)(model, STANDARD, Y, epsilons=[epsilon])
    assert found.success.sum() > 0
    assert np.mean(found.success == pixels.success) >= 0.95
    examples = to_numpy(found.adversarials)[0]
    assert examples.dtype == np.float32
    in_pixels = examples * STD.reshape(3, 1, 1) + MEAN.reshape(3, 1, 1)
    assert -1e-6 < in_pixels.min() <= in_pixels.max() < 1 + 1e-6
    assert (found.distances <= epsilon).all()
    fooled = to_numpy(model.logits(model.native(examples))).argmax(axis=1) != Y
    np.testing.assert_array_equal(fooled, found.success[0] | found.already)


def test_evaluation_takes_them_too_and_measures_in_shares():
    model = wrap(engine(), bounds=BOUNDS, preprocessing=BACK)
    evaluation = evaluate(model, STANDARD, Y, [8 / 255], attacks=["pgd"])
    assert evaluation.accuracy()[8 / 255] == PGD()(wrap(engine()), X, Y, epsilons=[8 / 255]).robust_accuracy[0]


def test_what_needs_one_pair_of_bounds_says_so():
    with pytest.raises(InvalidInput, match="EngineNet has bounds for each feature, which attacks and evaluate take"):
        clever(wrap(engine(), bounds=BOUNDS), STANDARD[:2], radius=1.0)


@pytest.mark.parametrize(
    ("bounds", "x", "message"),
    [
        (
            (np.zeros(3), np.ones(2)),
            X,
            r"as many of each for every feature .* got shapes \(3,\) and \(2,\)",
        ),
        ((np.zeros(3), [1, 0, 1]), X, r"low < high"),
        (
            (np.zeros(5), np.ones(5)),
            X,
            r"or channel of a sample \(3, 1, 4\), got shape \(5, 1, 1\)",
        ),
        ((np.zeros(3), [1, 0.01, 1]), X, r"x expects feature \(1, 0, 0\) within its bounds \[0, 0.01\], got 0"),
    ],
    ids=["shapes", "order", "channels", "outside"],
)
def test_bounds_that_do_not_fit_are_named(bounds, x, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate(wrap(engine(), bounds=bounds), x, Y, [0.1])


HIGH = np.array([80.0, 10, 1e4, 1, 1, 1, 5, 1, 1, 1, 1, 1])
LOW = np.array([18.0, 0, 0, 0, 0, 0, -5, 0, 0, 0, 0, 0])
RULES = Features(frozen=(7, 8), integer=(0, 1), one_hot=((3, 4, 5),))


def table(samples=30):
    """Rows of an age, a count, an income, a category of three, and seven other numbers."""
    generator = np.random.default_rng(2)
    x = generator.uniform(LOW, HIGH, (samples, 12))
    x[:, :2] = np.round(x[:, :2])
    x[:, 3:6] = np.eye(3)[generator.integers(0, 3, samples)]
    return x


ROWS = table()
SCALED = Normalization(tuple(LOW), tuple(HIGH - LOW), axis=-1)
LABELS = logits(((ROWS - LOW) / (HIGH - LOW)).reshape(-1, 3, 4)).argmax(axis=1)


@pytest.mark.parametrize(
    ("name", "norm", "epsilon"),
    [
        ("pgd", "linf", 0.3),
        ("pgd", "l2", 2.0),
        ("deepfool", "l2", 2.0),
        ("cw", "l2", 2.0),
        ("square", "linf", 0.3),
        ("hop-skip-jump", "linf", 0.4),
        ("boundary", "l2", 2.0),
        ("salt-and-pepper", "l0", 6.0),
    ],
)
def test_every_adversarial_row_is_a_legal_one(name, norm, epsilon):
    model = wrap(engine(np.float64), bounds=(LOW, HIGH), preprocessing=SCALED, features=RULES)
    result = light(name, norm)(model, ROWS, LABELS, epsilons=[epsilon])
    rows = result.adversarials[0]
    assert result.success.any()
    np.testing.assert_array_equal(rows[:, 7:9], ROWS[:, 7:9])
    np.testing.assert_allclose(rows[:, :2], np.round(rows[:, :2]), atol=1e-9)
    np.testing.assert_allclose(np.sort(rows[:, 3:6], axis=1), np.tile([0.0, 0.0, 1.0], (30, 1)), atol=1e-12)
    assert (result.distances <= epsilon).all()
    assert ((rows >= LOW - 1e-9) & (rows <= HIGH + 1e-9)).all()
    fooled = model.logits(rows).argmax(axis=1) != LABELS
    np.testing.assert_array_equal(fooled, result.success[0] | result.already)


def test_a_category_changes_only_within_the_budget():
    model = wrap(engine(np.float64), bounds=(LOW, HIGH), preprocessing=SCALED, features=RULES)
    small, large = Square("linf", queries=300)(model, ROWS, LABELS, epsilons=[0.9, 1.0]).adversarials
    np.testing.assert_array_equal(small[:, 3:6], ROWS[:, 3:6])
    assert (large[:, 3:6] != ROWS[:, 3:6]).any()


def test_a_mask_of_the_samples_shape_freezes_part_of_an_image():
    mask = np.zeros((3, 1, 4), bool)
    mask[1] = True
    result = make_attack("pgd")(wrap(engine(), features=Features(frozen=mask)), X, Y, epsilons=[0.2])
    np.testing.assert_array_equal(result.adversarials[0][:, 1], X[:, 1])
    assert result.success.any()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (Features(frozen=(12,)), r"frozen expects positions 0 to 11, got \[12\]"),
        (Features(frozen=np.zeros(5, bool)), r"frozen expects a mask of 12 elements, got \(5,\)"),
        (Features(integer=(2,)), "whole numbers at the positions that Features calls integer"),
        (Features(one_hot=((3, 4),)), r"one 1 and zeros at the one_hot positions \[3, 4\]"),
    ],
    ids=["position", "mask", "integer", "category"],
)
def test_features_that_do_not_fit_the_rows_are_named(features, message):
    with pytest.raises(InvalidInput, match=message):
        PGD()(wrap(engine(np.float64), bounds=(LOW, HIGH), features=features), ROWS, LABELS, epsilons=[0.1])


def _both(framework):
    """A network of two inputs, whose second one is the last row of `x`."""
    if framework == "engine":

        class Both(nn.Cell):
            def __init__(self):
                super().__init__()
                self.inner = network("engine")

            def construct(self, x):
                return self.inner(x[:, :3]) * x[:, 3:4, 0]

        return Both().set_train(False)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class BothInTorch(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network("torch")

        def forward(self, x):
            return self.inner(x[:, :3]) * x[:, 3:4, 0]

    return BothInTorch().eval()


@pytest.mark.parametrize("framework", MAKE)
def test_of_several_inputs_in_one_array_those_that_are_frozen_stay(framework):
    images = inputs(30)
    second = np.where(np.arange(30) % 2, 5.0, -3.0).astype(np.float32)  # outside the bounds of the first
    x = np.concatenate([images, np.repeat(second[:, None, None], 4, axis=2)], axis=1)
    labels = (logits(images) * second[:, None]).argmax(axis=1)
    frozen = np.zeros((4, 4), bool)
    frozen[3] = True
    low, high = np.zeros((4, 4)), np.ones((4, 4))
    low[3], high[3] = second.min(), second.max()
    model = wrap(_both(framework), bounds=(low, high), features=Features(frozen=frozen))
    result = PGD()(model, x, labels, epsilons=[0.1])
    found = to_numpy(result.adversarials)[0]
    np.testing.assert_array_equal(found[:, 3], x[:, 3])
    assert result.success.any()
    fooled = (logits(found[:, :3]) * second[:, None]).argmax(axis=1) != labels
    assert np.mean(fooled == result.success[0]) >= 0.95
