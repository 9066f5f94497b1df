"""Assignments to elements inside compiled code: which operations share memory, and what gradients make of it."""

import numpy as np
import pytest
from mindscope.framework import GradientError, Tensor, grad
from mindscope.framework.compiler import jit
from mindscope.framework.compiler.source.item_assignment import SHARING
from mindscope.framework.primitive import PRIMITIVES

from tests.contracts.primitive_cases import CASES


def shares(name, case):
    arrays = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in case.args]
    result = PRIMITIVES[name].evaluate(*arrays, **case.attributes)
    results = result if isinstance(result, tuple) else (result,)
    return any(
        np.may_share_memory(y, x)
        for y in results
        for x in arrays
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
    )


@pytest.mark.parametrize("name", sorted(set(CASES) - SHARING - {"put", "gate"}))
def test_what_is_not_listed_gives_memory_of_its_own(name):
    assert not any(shares(name, case) for case in CASES[name])


def test_no_gradient_flows_through_an_assigned_element_as_in_eager_code():
    def kept(x):
        y = x.detach() * 1
        y[0] = x[1] * 3
        return (y * x).sum()

    x = Tensor(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(grad(jit(kept))(x).numpy(), grad(kept)(x).numpy())
    np.testing.assert_array_equal(jit(grad(kept))(x).numpy(), grad(kept)(x).numpy())


def test_assigning_to_a_recorded_tensor_is_the_error_of_eager_code():
    def recorded(x):
        y = x * 2
        y[0] = 1.0
        return y.sum()

    x = Tensor(np.array([1.0, 2.0]))
    for fn in (grad(recorded), grad(jit(recorded)), jit(grad(recorded))):
        with pytest.raises(GradientError, match="item assignment is not recorded"):
            fn(x)
