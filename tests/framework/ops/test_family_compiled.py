"""The whole family compiled: values and gradients are those of the eager mode."""

import os

import numpy as np
import pytest

pytest.importorskip("torch", reason="the table of calls has PyTorch's beside ours")

from mindscope.framework import Tensor, ops, value_and_grad
from mindscope.framework.compiler import jit
from mindscope.framework.dtype import is_inexact

from tests.framework.ops.test_family_against_torch import CASES, Draw

#: Its shape depends on the data, which test_ordering shows to be refused.
_NAMES = sorted(set(CASES) - {"masked_select"})
if not os.environ.get("MINDSCOPE_TEST_ALL"):
    _NAMES = [str(name) for name in np.random.default_rng(7).choice(_NAMES, 30, replace=False)]


@pytest.mark.parametrize("name", _NAMES)
def test_a_compiled_function_gives_the_values_and_gradients_of_the_eager_one(name):
    function, _, arrays = CASES[name]
    given = [Tensor(a) for a in arrays(Draw(len(name)))]
    places = tuple(i for i, x in enumerate(given) if is_inexact(x.dtype))

    def loss(*xs):
        y = function(*xs)
        y = ops.real(y) + 2.0 * ops.imag(y) if y.dtype.kind == "c" else y
        return (y * y).sum() if is_inexact(y.dtype) else (xs[places[0]] * 0.0).sum()

    eager, compiled = function(*given), jit(function)(*given)
    assert (eager.shape, eager.dtype) == (compiled.shape, compiled.dtype)
    np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-12, atol=1e-12)
    expected, found = (f(*given)[1] for f in (value_and_grad(loss, places), jit(value_and_grad(loss, places))))
    for wanted, gradient in zip(expected, found, strict=True):
        scale = 1.0 + np.abs(wanted.numpy()).max(initial=0.0)
        np.testing.assert_allclose(gradient.numpy() / scale, wanted.numpy() / scale, rtol=1e-12, atol=1e-12)
