"""Every primitive keeps the contract of the table: evaluation, inference, and derivatives of first and second order."""

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, DataDependentShape, Tensor, no_grad
from mindscope.framework.specs import spec_of
from mindscope.framework.testing import check_gradients

from tests.contracts.dependent import COMPLETED, DIFFERENTIABLE_OUTPUTS
from tests.contracts.primitive_cases import CASES, SILENT

_EVERY = [(name, i) for name in sorted(PRIMITIVES) for i in range(len(CASES.get(name, [])))]


def _wrapped(case):
    return [Tensor(x) if isinstance(x, np.ndarray | np.generic) else x for x in case.args]


def test_every_primitive_has_cases():
    assert sorted(set(PRIMITIVES) - set(CASES)) == []
    assert sorted(set(CASES) - set(PRIMITIVES)) == []


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_evaluation_agrees_with_numpy(name, number):
    case = CASES[name][number]
    found = PRIMITIVES[name](*_wrapped(case), **case.attributes)
    expected = case.expected(*case.args, **case.attributes)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for y, wanted in pairs:
        np.testing.assert_allclose(y.numpy(), wanted, rtol=case.rtol, atol=case.rtol)
        assert y.shape == np.shape(wanted)


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_inference_agrees_with_evaluation(name, number):
    case = CASES[name][number]
    if not case.infers:
        with pytest.raises(DataDependentShape, match="depends on the data"):
            PRIMITIVES[name].infer(*(spec_of(x) for x in case.args), **case.attributes)
        return
    found = PRIMITIVES[name](*_wrapped(case), **case.attributes)
    inferred = PRIMITIVES[name].infer(*(spec_of(x) for x in case.args), **case.attributes)
    found, inferred = (x if isinstance(x, tuple) else (x,) for x in (found, inferred))
    assert [(y.shape, y.dtype) for y in found] == [(s.shape, s.dtype) for s in inferred]


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_single_precision_stays_single(name, number):
    case = CASES[name][number]
    if "dtype" in case.attributes:
        return
    args = [_single(x) for x in _wrapped_raw(case)]
    found = PRIMITIVES[name](*args, **case.attributes)
    expected = case.expected(*case.args, **case.attributes)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for y, wanted in pairs:
        assert y.dtype not in (np.float64, np.complex128)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-4, atol=2e-5)


def _single(x):
    narrow = {"float64": "float32", "complex128": "complex64"}.get(str(getattr(x, "dtype", "")))
    return x if narrow is None else Tensor(x.astype(narrow))


def _wrapped_raw(case):
    return [x if not isinstance(x, np.ndarray) or x.dtype == np.float64 else Tensor(x) for x in case.args]


_SMOOTH = [(name, i) for name, i in _EVERY if PRIMITIVES[name].is_differentiable]


@pytest.mark.parametrize(("name", "number"), _SMOOTH)
def test_derivatives_agree_with_finite_differences(name, number):
    case = CASES[name][number]
    args = _wrapped(case)
    places = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.dtype in (np.float64, np.complex128)]
    if name in COMPLETED:
        places = places[: COMPLETED[name][0]]

    def call(*varied):
        full = list(args)
        for place, x in zip(places, varied, strict=True):
            full[place] = x
        if name in COMPLETED:
            full = COMPLETED[name][1](full, case.attributes)
        found = PRIMITIVES[name](*full, **case.attributes)
        return found[: DIFFERENTIABLE_OUTPUTS[name]] if name in DIFFERENTIABLE_OUTPUTS else found

    check_gradients(call, *(args[i] for i in places), order=2, tolerance=2e-6)


def test_primitives_without_a_gradient_say_so():
    silent = {name for name, p in PRIMITIVES.items() if not p.is_differentiable}
    assert silent == SILENT
    for name in silent:
        case = CASES[name][0]
        args = [Tensor(x, requires_grad=True) if np.asarray(x).dtype == np.float64 else x for x in _wrapped_raw(case)]
        found = PRIMITIVES[name](*args, **case.attributes)
        assert not any(y.requires_grad for y in (found if isinstance(found, tuple) else (found,)))


_EAGER = [(name, i) for name, i in _SMOOTH if PRIMITIVES[name].eager_vjp is not None]


@pytest.mark.parametrize(("name", "number"), _EAGER)
@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16"])
def test_the_rule_on_arrays_gives_the_bits_of_the_rules_on_tensors(name, number, precision):
    case = CASES[name][number]
    args = [_to_train(x, precision) for x in _wrapped(case)]
    if precision in ("float16", "bfloat16") and any(isinstance(x, Tensor) and x.dtype.kind == "c" for x in args):
        return  # there is no complex number of halves
    out = PRIMITIVES[name](*args, **case.attributes)
    node = out._node
    g = np.random.default_rng(number).normal(size=out.shape).astype(out.dtype)
    needs = [isinstance(x, Tensor) and x.requires_grad for x in args]
    arrays = [x.numpy() if isinstance(x, Tensor) else x for x in args]
    with no_grad():
        expected = node.primitive.pull_back(node, node.saved_inputs(), needs, Tensor(g))
    found = node.eager_vjp(needs, g, node.outputs, *arrays, **node.attributes)
    if found is NotImplemented:
        return
    assert [y is None for y in found] == [y is None for y in expected]
    for array, gradient in zip(found, expected, strict=True):
        if gradient is not None:
            assert (array.shape, array.dtype) == (gradient.shape, gradient.dtype)
            assert array.tobytes() == gradient.numpy().tobytes()


def _to_train(x, precision):
    if not isinstance(x, Tensor) or x.dtype.kind not in "fc":
        return x
    if x.dtype.kind == "c":
        return Tensor(x, {"float32": "complex64"}.get(precision, "complex128"), requires_grad=True)
    return Tensor(x, precision, requires_grad=True)


def test_small_networks_go_back_by_rules_on_arrays():
    assert {"add", "cross_entropy", "linear", "matmul", "mean", "multiply", "relu", "sum"} <= {n for n, _ in _EAGER}
