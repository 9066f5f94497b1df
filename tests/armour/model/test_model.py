"""Cells and modules as attacks see them: the same numbers, and nothing of theirs is changed."""

import warnings

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, InvalidModel, Normalization, evaluate, wrap
from mindscope.armour.array_api import from_numpy, to_numpy
from mindscope.framework import Tensor, nn

from tests.armour.frameworks import MAKE, engine, inputs, logits, modes, parameters, torch_module

each_framework = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


@each_framework
def test_logits_are_those_of_the_model(make):
    model = wrap(make())
    np.testing.assert_allclose(to_numpy(model.logits(model.native(inputs()))), logits(inputs()), rtol=1e-4, atol=1e-5)


@each_framework
@pytest.mark.parametrize("normalization", [None, Normalization((0.1, 0.5, 0.9), (0.5, 0.25, 2.0), axis=-2)])
def test_the_gradient_is_that_of_finite_differences(make, normalization):
    model = wrap(make(), preprocessing=normalization)
    x = model.native(inputs(5))
    weights = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    _, gradient = model.pullback(x, lambda values: from_numpy(weights, values))
    generator = np.random.default_rng(1)
    for _ in range(5):
        direction = generator.standard_normal(inputs(5).shape).astype(np.float32) * 1e-3
        ahead, behind = (to_numpy(model.logits(x + from_numpy(sign * direction, x))) for sign in (1, -1))
        expected = np.sum((ahead - behind).astype(float) * weights) / 2
        np.testing.assert_allclose(np.sum(to_numpy(gradient) * direction), expected, rtol=0.02, atol=2e-5)


def test_both_frameworks_fall_to_the_same_examples():
    x = inputs()
    labels = logits(x).argmax(axis=1)
    results = [PGD()(wrap(make()), x, labels, epsilons=[0.05, 0.1], seed=3) for make in (engine, torch_module)]
    np.testing.assert_allclose(results[0].robust_accuracy, results[1].robust_accuracy, atol=0.03)
    np.testing.assert_allclose(results[0].adversarials, to_numpy(results[1].adversarials), atol=0.05)
    assert results[0].success.any()


def test_examples_are_arrays_of_the_models_own_kind_and_any_kind_is_taken():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, labels = inputs(), logits(inputs()).argmax(axis=1)
    from_torch = PGD(steps=3)(wrap(torch_module()), torch.from_numpy(x), torch.from_numpy(labels), epsilons=[0.1])
    assert isinstance(from_torch.adversarials, torch.Tensor)
    assert from_torch.adversarials.dtype == torch.float32
    from_engine = PGD(steps=3)(wrap(engine()), Tensor(x), Tensor(labels), epsilons=[0.1])
    assert isinstance(from_engine.adversarials, np.ndarray)


@each_framework
def test_read_only_and_reversed_inputs_are_taken(make):
    x = inputs()[::-1]
    x.flags.writeable = False
    labels = logits(x).argmax(axis=1)
    assert PGD(steps=3)(wrap(make()), x, labels, epsilons=[0.1]).success.any()


@each_framework
def test_an_attack_changes_no_parameter_no_gradient_and_no_mode(make):
    raw = make()
    before = parameters(raw)
    PGD(steps=3)(wrap(raw), inputs(), logits(inputs()).argmax(axis=1), epsilons=[0.1])
    for (value, gradient), (new_value, new_gradient) in zip(before, parameters(raw), strict=True):
        np.testing.assert_array_equal(value, new_value)
        assert gradient is None
        assert new_gradient is None


@each_framework
def test_training_mode_is_warned_about_switched_and_restored_module_by_module(make):
    raw = make()
    child = next(iter(raw.name_cells().values())) if isinstance(raw, nn.Cell) else raw[1]
    child.training = True
    before = modes(raw)
    with pytest.warns(UserWarning, match="1 modules in training mode; attacks switch them"):
        model = wrap(raw)
    assert modes(raw) == before
    with model.evaluating(), model.evaluating():
        assert not any(modes(raw))
    assert modes(raw) == before
    with pytest.raises(ZeroDivisionError), model.evaluating():
        raise ZeroDivisionError
    assert modes(raw) == before


@each_framework
def test_evaluation_mode_is_not_warned_about(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap(make())


@each_framework
def test_a_model_that_detaches_its_input_is_named(make):
    raw = make()
    original = type(raw).__call__
    raw.__class__ = type("Cut", (type(raw),), {"__call__": lambda self, x: original(self, x.detach())})
    with pytest.raises(InvalidModel, match="do not depend on x by differentiable operations"):
        evaluate(raw, inputs(), logits(inputs()).argmax(axis=1), [0.1])


def test_what_cannot_be_wrapped_is_named():
    with pytest.raises(InvalidModel, match=r"or a function of inputs, got builtins\.list"):
        wrap([1, 2])
    with pytest.raises(InvalidModel, match=r"got the class tests\..*EngineNet; make one of it"):
        wrap(type(engine()))
    with pytest.raises(InvalidModel, match="wrapped already"):
        wrap(wrap(engine()))
    with pytest.raises(InvalidInput, match=r"low < high, got \(1, 0\)"):
        wrap(engine(), bounds=(1, 0))
    with pytest.raises(InvalidInput, match=r"preprocessing expects a Normalization\(mean, std\), got function"):
        wrap(engine(), preprocessing=lambda x: x)
    with pytest.raises(InvalidInput, match="every std > 0"):
        Normalization(0.0, 0.0)


def test_a_normalization_of_the_wrong_channels_is_named():
    model = wrap(engine(), preprocessing=Normalization((0.1, 0.2), (1.0, 1.0), axis=-1))
    with pytest.raises(InvalidInput, match="2 channels on axis -1"):
        evaluate(model, inputs(), logits(inputs()).argmax(axis=1), [0.1])


def test_budgets_are_measured_before_the_normalization():
    model = wrap(engine(), preprocessing=Normalization(0.5, 0.01))
    x = inputs()
    labels = model.logits(x).argmax(axis=1)
    assert PGD(steps=3)(model, x, labels, epsilons=[0.01]).distances.max() <= 0.01
