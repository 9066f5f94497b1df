"""Special functions where they are hard: tails, poles, both sides of the recurrence."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import DtypeError, Tensor, ops
from mindscope.framework.testing import check_gradients

_EULER = 0.57721566490153286


def _of(function, *values):
    return function(Tensor(np.array(values))).numpy()


@settings(max_examples=100, deadline=None)
@given(st.floats(-5.5, 5.5))
def test_the_inverse_error_function_inverts(x):
    y = math.erf(x)
    slack = 4 * np.finfo(float).eps / (math.exp(-x * x) + 1e-300)  # what rounding y can do to x
    np.testing.assert_allclose(_of(ops.erfinv, y)[0] if abs(y) < 1 else x, x, rtol=1e-12, atol=slack)


def test_values_that_are_known():
    np.testing.assert_allclose(
        _of(ops.digamma, 1.0, 0.5, -0.5), [-_EULER, -_EULER - math.log(4), 2 - _EULER - math.log(4)]
    )
    np.testing.assert_allclose(
        ops.polygamma(Tensor(np.array([1.0, 0.5])), 1).numpy(), [math.pi**2 / 6, math.pi**2 / 2], rtol=1e-14
    )
    np.testing.assert_allclose(ops.polygamma(Tensor(np.array([1.0])), 3).numpy(), math.pi**4 / 15, rtol=1e-13)
    np.testing.assert_allclose(_of(ops.lgamma, 1.0, 2.0, 0.5), [0.0, 0.0, math.log(math.pi) / 2], atol=1e-15)
    np.testing.assert_allclose(_of(ops.erfc, 20.0), 5.3958656116079e-176, rtol=1e-12)


def test_poles_and_ends_are_infinite_or_nan():
    assert _of(ops.lgamma, 0.0, -3.0).tolist() == [math.inf, math.inf]
    assert np.isnan(_of(ops.digamma, 0.0, -2.0)).all()
    assert _of(ops.erfinv, 1.0, -1.0).tolist() == [math.inf, -math.inf]
    assert np.isnan(_of(ops.erfinv, 1.1, np.nan)).all()
    assert np.isnan(_of(ops.digamma, np.nan)).all()


@settings(max_examples=50, deadline=None)
@given(st.floats(-6.0, 6.0).filter(lambda x: abs(x - round(x)) > 1e-3))
def test_digamma_obeys_its_recurrence(x):
    low, high = _of(ops.digamma, x, x + 1.0)
    np.testing.assert_allclose(high - low, 1.0 / x, rtol=1e-9, atol=1e-9)


def test_the_derivatives_of_lgamma_go_on_for_ever():
    check_gradients(ops.lgamma, Tensor(np.array([0.7, 3.2])), order=3)


def test_sums_of_logarithms_do_not_overflow():
    nothing = -math.inf
    assert ops.logaddexp(Tensor([1e4, nothing]), Tensor([1e4, nothing])).tolist() == [
        pytest.approx(1e4 + math.log(2)), nothing,
    ]  # fmt: skip
    x = Tensor(np.array([nothing, nothing, 1e4]), requires_grad=True)
    ops.logcumsumexp(x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    assert ops.logsumexp(Tensor(np.full(3, nothing))).item() == nothing
    assert ops.logsumexp(Tensor(np.ones(0))).item() == nothing


@pytest.mark.parametrize("name", ["erf", "lgamma", "relu", "gelu", "softmax", "logsumexp", "elu"])
def test_what_has_no_meaning_for_complex_numbers_says_so(name):
    z = Tensor(np.ones(2) + 1j)
    with pytest.raises(DtypeError, match=f"'{name}' expects a real tensor, got complex128"):
        getattr(ops, name)(z)
