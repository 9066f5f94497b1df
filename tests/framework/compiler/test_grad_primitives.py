"""Every differentiable primitive: derivatives through the IR are those of the eager tape, first and second order."""

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Tensor, grad
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.dtype import is_inexact
from mindscope.framework.ir.verify import verify

from tests.contracts.primitive_cases import CASES
from tests.framework.compiler.captured import gradients_graph, of_graph, weighted

_SMOOTH = [
    (name, i)
    for name in sorted(PRIMITIVES)
    if PRIMITIVES[name].is_differentiable
    for i in range(len(CASES.get(name, [])))
]


def _function(name, case):
    """The case as a scalar function of its tensors, the tensors, and the places of those that have gradients."""
    tensors = [i for i, x in enumerate(case.args) if isinstance(x, np.ndarray | np.generic)]

    def fn(*varied):
        full = list(case.args)
        for i, x in zip(tensors, varied, strict=True):
            full[i] = x
        found = PRIMITIVES[name](*full, **case.attributes)
        return weighted(found[0] if name == "batch_norm" else found, 0)

    arguments = [Tensor(np.asarray(case.args[i])) for i in tensors]
    wrt = [i for i, x in enumerate(arguments) if is_inexact(x.dtype)]
    return fn, arguments, wrt


def _close(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "number"), _SMOOTH)
def test_gradients_of_a_primitive_are_those_of_the_tape(name, number):
    fn, arguments, wrt = _function(name, CASES[name][number])
    arrays = [x.numpy() for x in arguments]
    first = verify(gradients_graph(fn, arguments, wrt))
    value, found = evaluate(first, arrays)
    np.testing.assert_allclose(value, fn(*arguments).numpy(), rtol=1e-12)
    _close(found, grad(fn, wrt)(*arguments))

    second = verify(gradients_graph(lambda *xs: weighted(of_graph(first, *xs)[1], 1), arguments, wrt))
    _close(evaluate(second, arrays)[1], grad(lambda *xs: weighted(grad(fn, wrt)(*xs), 1), wrt)(*arguments))
