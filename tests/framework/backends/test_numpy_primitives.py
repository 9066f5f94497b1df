"""Every primitive: what the backend computes, optimised and fused, is what the reference evaluator computes."""

import os
import random

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Tensor
from mindscope.framework.compiler import pipeline
from mindscope.framework.compiler.capture import trace
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.signature import Signature
from mindscope.framework.dtype import is_inexact
from mindscope.framework.ir.verify import verify

from tests.contracts.primitive_cases import CASES
from tests.framework.compiler.captured import gradients_graph, weighted

_UNTYPED = {"nonzero", "unique"}  # how much they return only the values tell, so they cannot stand in a graph
_EVERY = [(name, i) for name in sorted(set(PRIMITIVES) - _UNTYPED) for i in range(len(CASES.get(name, [])))]
if not os.environ.get("MINDSCOPE_TEST_ALL"):
    _EVERY = sorted(random.Random(3).sample(_EVERY, 150))


def _close(found, expected):
    if isinstance(expected, tuple):
        for x, y in zip(found, expected, strict=True):
            _close(x, y)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def _captured(fn, tensors):
    signature, arrays = Signature.of(tuple(tensors), {})
    return trace(fn, signature).graph, arrays


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_a_compiled_primitive_gives_what_the_reference_gives(name, number):
    case = CASES[name][number]
    places = [i for i, x in enumerate(case.args) if isinstance(x, np.ndarray | np.generic)]

    def fn(*varied):
        full = list(case.args)
        for i, x in zip(places, varied, strict=True):
            full[i] = x
        return PRIMITIVES[name](*full, **case.attributes)

    graph, arrays = _captured(fn, [Tensor(np.asarray(case.args[i])) for i in places])
    optimized = pipeline.optimize(graph, check=verify)
    expected = evaluate(graph, arrays)
    _close(evaluate(optimized, arrays), expected)
    run = pipeline.compile(graph)
    copies = [np.array(x) for x in arrays]
    _close(run(arrays), expected)
    for array, copy in zip(arrays, copies, strict=True):  # arguments are the caller's
        np.testing.assert_array_equal(array, copy)
    _close(run(arrays), expected)


_SMOOTH = [(name, i) for name, i in _EVERY if PRIMITIVES[name].is_differentiable]


@pytest.mark.parametrize(("name", "number"), _SMOOTH)
def test_a_compiled_gradient_gives_what_the_reference_gives(name, number):
    case = CASES[name][number]
    places = [i for i, x in enumerate(case.args) if isinstance(x, np.ndarray | np.generic)]

    def fn(*varied):
        full = list(case.args)
        for i, x in zip(places, varied, strict=True):
            full[i] = x
        found = PRIMITIVES[name](*full, **case.attributes)
        return weighted(found[0] if name == "batch_norm" else found, 0)

    tensors = [Tensor(np.asarray(case.args[i])) for i in places]
    wrt = [i for i, x in enumerate(tensors) if is_inexact(x.dtype)]
    graph = gradients_graph(fn, tensors, wrt)
    arrays = [x.numpy() for x in tensors]
    _close(pipeline.compile(graph)(arrays), evaluate(graph, arrays))
