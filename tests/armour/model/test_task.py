"""Tasks with several labels, numbers or pixels are attacked by the same searches, on the margin that decides."""

import numpy as np
import pytest
from mindscope.armour import (
    FGSM,
    PGD,
    HopSkipJump,
    InvalidInput,
    InvalidModel,
    MultiLabel,
    Regression,
    Segmentation,
    Square,
    Tokens,
    evaluate,
    make_attack,
    wrap,
)
from mindscope.armour.array_api import from_numpy, to_numpy
from mindscope.framework import Tensor, nn, ops

from tests.armour.frameworks import MAKE, engine, inputs, logits

X = inputs(24)
OUT = logits(X) - logits(X).mean(axis=0)
LABELS = (OUT > 0).astype(int)


def centred(framework="engine"):
    """The network, whose outputs lie around 0."""
    raw, middle = MAKE[framework](), logits(X).mean(axis=0)
    original = type(raw).__call__

    def call(self, x):
        found = original(self, x)
        return found - (Tensor(middle) if framework == "engine" else found.new_tensor(middle))

    raw.__class__ = type("Centred", (type(raw),), {"__call__": call})
    return raw


@pytest.mark.parametrize("framework", MAKE)
@pytest.mark.parametrize("wrong", [1, 3])
def test_so_many_labels_of_several_turn_wrong(framework, wrong):
    model = wrap(centred(framework), task=MultiLabel(wrong))
    result = PGD()(model, X, LABELS, epsilons=[0.1])
    after = to_numpy(model.logits(model.native(to_numpy(result.adversarials)[0]))) > 0
    np.testing.assert_array_equal((after != LABELS).sum(axis=1) >= wrong, result.success[0])
    assert result.success.any()
    one = PGD()(wrap(centred(framework), task=MultiLabel()), X, LABELS, epsilons=[0.1])
    assert result.success.mean() <= one.success.mean()


@pytest.mark.parametrize("framework", MAKE)
def test_an_error_of_a_regression_grows_over_its_tolerance(framework):
    model = wrap(centred(framework), task=Regression(0.4))
    result = PGD()(model, X, OUT, epsilons=[0.02, 0.2])
    errors = np.abs(to_numpy(model.logits(model.native(to_numpy(result.adversarials)[1]))) - OUT).max(axis=1)
    np.testing.assert_array_equal(errors > 0.4, result.success[1])
    assert result.success[0].sum() < result.success[1].sum()


def test_one_step_on_a_linear_regression_reaches_what_theory_says():
    weights = np.array([[2.0], [-1.0], [0.5]], np.float32)
    model = wrap(_Linear(weights), task=Regression(0.35 - 1e-4))
    x = np.full((5, 3), 0.5, np.float32)
    y = (x @ weights)[:, 0]
    short, long = FGSM()(model, x, y, epsilons=[0.09, 0.1]).success  # 0.1 times the L1 norm of the weights is 0.35
    assert not short.any()
    assert long.all()


class _Linear(nn.Cell):
    def __init__(self, weights):
        super().__init__()
        self.weights = Tensor(weights)

    def construct(self, x):
        return ops.matmul(x, self.weights).reshape(-1)


class _Pixels(nn.Cell):
    """Two classes a pixel: dark or light."""

    def construct(self, x):
        return ops.concat([0.5 - x, x - 0.5], axis=1)


def test_as_many_pixels_turn_wrong_as_an_image_may_lose():
    x = np.full((1, 1, 4, 5), 0.4, np.float32)
    x[0, 0, 0] = 0.47  # five pixels near the boundary
    y = np.zeros((1, 4, 5), int)
    for kept, epsilon, falls in ((0.8, 0.05, True), (0.7, 0.05, False), (0.7, 0.11, True)):
        result = PGD()(wrap(_Pixels(), task=Segmentation(kept)), x, y, epsilons=[epsilon])
        assert result.success[0, 0] == falls
    ignored = y.copy()
    ignored[0, 0] = 255
    assert not PGD()(wrap(_Pixels(), task=Segmentation(0.99)), x, ignored, epsilons=[0.05]).success.any()
    evaluation = evaluate(wrap(_Pixels(), task=Segmentation(0.5)), x, y, [0.05], attacks=["pgd"])
    assert evaluation.accuracy() == {0.0: 1.0, 0.05: 1.0}
    (outcome,) = (o for o in evaluation.outcomes if (o.attack, o.epsilon) == ("pgd", 0.05))
    assert outcome.details["scores"] == {"right": 0.75, "mean_iou": 0.375}  # light pixels: 0 of 5; dark ones: 15 of 20


@pytest.mark.parametrize(
    "attack",
    [make_attack("apgd-t"), make_attack("fmn", "l2"), Square(queries=300), HopSkipJump("linf", steps=2, queries=20)],
    ids=lambda attack: attack.name,
)
def test_every_kind_of_attack_takes_a_task(attack):
    model = wrap(centred(), task=Regression(0.3))
    result = attack(model, X, OUT, epsilons=[0.5])
    errors = np.abs(model.logits(result.adversarials[0]) - OUT).max(axis=1)
    np.testing.assert_array_equal(errors > 0.3, result.success[0])
    assert result.success.mean() > 0.8


def test_a_regressor_of_scikit_learn_is_evaluated_without_gradients():
    from sklearn.linear_model import LinearRegression

    flat = X.reshape(len(X), -1)
    model = wrap(LinearRegression().fit(flat, OUT[:, 0]), task=Regression(2.0))
    evaluation = evaluate(model, flat, OUT[:, 0], [0.5], attacks=[Square(queries=100)])
    assert evaluation.answers == "logits"
    assert evaluation.accuracy()[0.5] < evaluation.clean_accuracy == 1.0
    errors = [o.details["scores"]["mean_absolute_error"] for o in evaluation.outcomes if o.attack == "square"]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("task", "outputs", "y"),
    [
        (MultiLabel(2), OUT, LABELS.astype(np.float32) * 0),
        (Regression(0.3), OUT, np.zeros_like(OUT)),
        (Segmentation(0.7), np.random.default_rng(0).standard_normal((2, 3, 2, 4)), np.zeros((2, 8), int)),
        (Tokens(0.7), np.random.default_rng(0).standard_normal((2, 5, 3)), np.zeros((2, 5), int)),
        (Tokens(following=True), np.random.default_rng(0).standard_normal((2, 5, 3)), np.ones((2, 4), int)),
    ],
    ids=["labels", "numbers", "pixels", "tokens", "next tokens"],
)
def test_the_gradient_of_margins_is_that_of_finite_differences(task, outputs, y):
    weights = np.random.default_rng(1).standard_normal(task.margins(outputs, y).shape)
    step = np.random.default_rng(2).standard_normal(outputs.shape) * 1e-6
    rise = np.sum(weights * (task.margins(outputs + step, y) - task.margins(outputs - step, y))) / 2
    np.testing.assert_allclose(np.sum(task.pull(outputs, y, weights) * step), rise, rtol=1e-4)
    assert (np.sum(task.slope(outputs, y) ** 2) > 0).all()


@pytest.mark.parametrize(
    ("task", "y", "error", "message"),
    [
        (MultiLabel(), LABELS[:, :2], InvalidInput, r"y expects shape \(n, 3\), as the model returns, got \(24, 2\)"),
        (MultiLabel(), LABELS + 1, InvalidInput, "y expects 0 or 1 for every label"),
        (MultiLabel(4), LABELS, InvalidInput, "wrong of 1 to 3, the labels, got 4"),
        (Regression(1.0), OUT * np.nan, InvalidInput, "y expects finite numbers"),
        (Regression(1.0), OUT[:5], InvalidInput, "y expects one row for each of 24 samples"),
        (Segmentation(), LABELS, InvalidModel, r"logits \(n, classes, height, width\) .* got shape \(16, 3\)"),
    ],
    ids=["shape", "values", "too many", "nan", "rows", "no pixels"],
)
def test_a_task_that_does_not_fit_is_named_before_anything_runs(task, y, error, message):
    with pytest.raises(error, match=message):
        evaluate(wrap(centred(), task=task), X, y, [0.1])


def test_targets_and_options_of_tasks_are_checked():
    with pytest.raises(InvalidInput, match="targets expects a model of classes, got the task MultiLabel"):
        PGD()(wrap(centred(), task=MultiLabel()), X, LABELS, targets=LABELS[:, 0], epsilons=[0.1])
    for make, message in (
        (lambda: MultiLabel(0), "wrong of 1 or more"),
        (lambda: Regression(0.0), "a tolerance above 0"),
        (lambda: Segmentation(0.0), "kept above 0 and up to 1"),
        (lambda: Tokens(1.5), "kept above 0 and up to 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make()


def test_one_label_is_the_attack_on_the_logit_itself():
    one = wrap(centred(), task=MultiLabel(), output=None)
    x = one.native(X)
    weights = np.zeros((24, 3), np.float32)
    weights[:, 1] = 1.0
    _, gradient = one.pullback(x, lambda values: from_numpy(weights, values))
    np.testing.assert_allclose(gradient, wrap(engine()).pullback(x, lambda values: weights)[1], atol=1e-6)


class _Masked(nn.Cell):
    """Rounds what it is given, or leaves it."""

    def __init__(self, inner, levels):
        super().__init__()
        self.inner, self.levels = inner, levels

    def construct(self, x):
        return self.inner(ops.floor(x * self.levels) / self.levels + 0.0 * x if self.levels else x)


class _Brightness(nn.Cell):
    """Two classes for each pixel: whether the mean around it is bright."""

    def construct(self, x):
        bright = (x - 0.5).reshape(len(x), 1, 2, -1)
        return ops.concat([-3.0 * bright, 3.0 * bright], axis=1)


def _tasks():
    bright = (X.reshape(len(X), 2, -1) > 0.5).astype(int)
    return {
        "labels": (centred(), LABELS, MultiLabel()),
        "two labels": (centred(), LABELS, MultiLabel(2)),
        "numbers": (centred(), OUT, Regression(0.4)),
        "pixels": (_Brightness(), bright, Segmentation(0.7)),
    }


@pytest.mark.parametrize("name", _tasks())
def test_hidden_gradients_of_a_task_are_told_and_an_honest_one_is_not_accused(name):
    inner, y, task = _tasks()[name]
    honest = evaluate(wrap(_Masked(inner, 0).set_train(False), task=task), X, y, [0.1], attacks=["pgd"])
    assert honest.masking == ()
    hidden = evaluate(wrap(_Masked(inner, 8).set_train(False), task=task), X, y, [0.1], attacks=["pgd"])
    assert "zero-gradient" in {sign.name for sign in hidden.masking}
