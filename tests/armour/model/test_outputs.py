"""What models return, in any of its forms, is read as the logits that it stands for, with the right gradients."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from mindscope.armour import FGSM, PGD, InvalidInput, InvalidModel, evaluate, wrap
from mindscope.armour.array_api import from_numpy, to_numpy
from mindscope.framework import Tensor, ops

from tests.armour.frameworks import MAKE, engine, inputs, logits

X = inputs(40)
Y = logits(X).argmax(axis=1)
EXACT = PGD(steps=5)(wrap(engine()), X, Y, epsilons=[0.05]).success


def returning(make, change):
    """The network, whose output is changed."""
    raw = make()
    original = type(raw).__call__
    raw.__class__ = type("Changed", (type(raw),), {"__call__": lambda self, x: change(original(self, x))})
    return raw


@dataclass
class Output:
    """What libraries return."""

    loss: object
    logits: object


Pair = namedtuple("Pair", ["features", "logits"])
WRAPPED = {
    "dict": (lambda z: {"loss": None, "logits": z}, None),
    "ordered dict by index": (lambda z: OrderedDict(features=z * 0, logits=z), 1),
    "named": (lambda z: {"features": z * 0, "logits": z}, "logits"),
    "tuple": (lambda z: (z, [z, z]), None),
    "tuple from the end": (lambda z: (z * 0, z), -1),
    "named tuple": (lambda z: Pair(z * 0, z), "logits"),
    "dataclass": (lambda z: Output(None, z), None),
}


@pytest.mark.parametrize("framework", MAKE)
@pytest.mark.parametrize("case", WRAPPED.values(), ids=WRAPPED)
def test_the_logits_are_found_in_what_is_returned(framework, case):
    change, output = case
    model = wrap(returning(MAKE[framework], change), output=output)
    np.testing.assert_array_equal(PGD(steps=5)(model, X, Y, epsilons=[0.05]).success, EXACT)


@pytest.mark.parametrize(
    ("change", "output", "message"),
    [
        (
            lambda z: (z, z),
            None,
            r"tuple of 0 \(16, 3\), 1 \(16, 3\), several of which .* output=0 for the first",
        ),
        (lambda z: {"a": None}, None, "dict of a NoneType, none of which"),
        (lambda z: {"logits": z}, "logit", r"returns no 'logit'; it returns logits \(16, 3\)"),
        (lambda z: "cat", None, "must return a tensor, or a structure with one in it, got str"),
    ],
    ids=["two fit", "none fits", "wrong name", "text"],
)
def test_a_field_that_is_not_there_is_named_before_anything_runs(change, output, message):
    with pytest.raises(InvalidModel, match=message):
        evaluate(wrap(returning(engine, change), output=output), X, Y, [0.1])


@pytest.mark.parametrize("framework", MAKE)
def test_one_logit_is_two_classes(framework):
    def difference(z):
        return z[:, 1] - z[:, 0]

    two = returning(MAKE[framework], lambda z: z[:, :2])
    labels = logits(X)[:, :2].argmax(axis=1)
    expected = PGD(steps=5)(wrap(two), X, labels, epsilons=[0.05])
    for change in (difference, lambda z: difference(z).reshape(-1, 1)):
        found = PGD(steps=5)(wrap(returning(MAKE[framework], change)), X, labels, epsilons=[0.05])
        np.testing.assert_array_equal(found.success, expected.success)
        np.testing.assert_allclose(to_numpy(found.adversarials), to_numpy(expected.adversarials), atol=1e-6)


@pytest.mark.parametrize("returns", ["probabilities", None])
def test_probabilities_fall_as_their_logits_do(returns):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model = wrap(returning(MAKE["torch"], lambda z: torch.softmax(z, dim=1)), returns=returns)
    if returns is None:
        with pytest.warns(UserWarning, match="returns probabilities; attacks take their logarithms"):
            found = PGD(steps=5)(model, X, Y, epsilons=[0.05])
    else:
        found = PGD(steps=5)(model, X, Y, epsilons=[0.05])
    np.testing.assert_array_equal(found.success, EXACT)


def test_the_probability_of_the_second_class_is_taken_when_it_is_named():
    change = lambda z: 1 / (1 + ops.exp(z[:, 0] - z[:, 1]))  # noqa: E731
    labels = logits(X)[:, :2].argmax(axis=1)
    expected = PGD(steps=5)(wrap(returning(engine, lambda z: z[:, :2])), X, labels, epsilons=[0.05]).success
    model = wrap(returning(engine, change), returns="probabilities")
    np.testing.assert_array_equal(PGD(steps=5)(model, X, labels, epsilons=[0.05]).success, expected)


@pytest.mark.parametrize("change", [lambda z: z[0], lambda z: z.reshape(-1)], ids=["squeezed", "flat"])
def test_a_batch_of_one_may_have_lost_its_axis(change):
    model = wrap(returning(engine, lambda z: change(z) if len(z) == 1 else z))
    evaluation = evaluate(model, X[:1], Y[:1], [0.0])
    assert evaluation.clean_accuracy == 1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("framework", MAKE)
def test_models_in_half_precision_are_attacked_in_single(framework, dtype):
    if framework == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        model = wrap(MAKE["torch"]().to(getattr(torch, dtype)))
    else:
        import ml_dtypes

        model = wrap(engine({"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[dtype]))
    labels = to_numpy(model.logits(model.native(X))).argmax(axis=1)
    result = PGD(steps=5)(model, X, labels, epsilons=[0.05])
    assert str(result.adversarials.dtype).endswith("float32")
    assert abs(result.success.mean() - EXACT.mean()) < 0.15


def test_what_autocast_returns_is_widened():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert PGD(steps=5)(wrap(MAKE["torch"]()), X, Y, epsilons=[0.1]).success.any()


@pytest.mark.parametrize("framework", MAKE)
def test_double_data_for_a_single_model_is_cast_and_said(framework):
    with pytest.warns(UserWarning, match="x is float64 and the model computes in float32"):
        result = FGSM()(wrap(MAKE[framework]()), X.astype(np.float64), Y, epsilons=[0.05])
    assert str(result.adversarials.dtype).endswith("float32")
    single = FGSM()(wrap(MAKE[framework](np.float64)), X, Y, epsilons=[0.05])
    assert str(single.adversarials.dtype).endswith("float64")


def test_options_are_checked():
    with pytest.raises(InvalidInput, match="returns expects logits, probabilities, labels, got 'scores'"):
        wrap(engine(), returns="scores")
    with pytest.raises(InvalidInput, match="classes expects a number of 2 or more"):
        wrap(engine(), classes=1)
    with pytest.raises(InvalidInput, match="queries expects a number of rows of 1 or more, got 0"):
        wrap(engine(), queries=0)


def test_the_gradient_of_a_reading_is_that_of_finite_differences():
    model = wrap(
        returning(engine, lambda z: ops.exp(z) / ops.exp(z).sum(axis=1, keepdims=True)), returns="probabilities"
    )
    x = X[:3]
    weights = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    _, gradient = model.pullback(x, lambda values: from_numpy(weights, values))
    step = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32) * 1e-3
    expected = np.sum((model.logits(x + step) - model.logits(x - step)).astype(float) * weights) / 2
    np.testing.assert_allclose(np.sum(gradient * step), expected, rtol=0.02, atol=2e-5)


def test_a_tensor_of_ours_may_come_from_a_function():
    network = engine()
    model = wrap(lambda x: network(Tensor(x)).numpy())
    assert model.answers == "logits"
