"""Loops and recursion: kernels inside, the values of the reference, results of their own."""

import numpy as np
import pytest
from mindscope.framework.compiler import pipeline
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.specs import Spec

from tests.framework.compiler.graphs import loop_graph, op, recursion_graph

_VECTOR = Spec((6,), np.dtype(np.float64))


def _step(graph, i, x):
    return op(graph, "subtract", op(graph, "multiply", op(graph, "exp", op(graph, "negative", x)), 1.5), x)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_loop_of_fused_operations_gives_what_the_reference_gives(n):
    graph = loop_graph(_step, _VECTOR)
    x = np.linspace(0.0, 1.0, 6)
    found = pipeline.compile(graph)([np.array(n), x])
    np.testing.assert_allclose(found, evaluate(graph, [np.array(n), x]), rtol=1e-12)
    assert not np.shares_memory(found, x)


def test_a_long_loop_needs_no_stack():
    graph = loop_graph(lambda graph, i, x: op(graph, "multiply", op(graph, "add", x, 1.0), 0.5), _VECTOR)
    found = pipeline.compile(graph)([np.array(20_000), np.zeros(6)])
    np.testing.assert_allclose(found, 1.0)


@pytest.mark.parametrize("n", [0, 3])
def test_the_gradient_of_recursion_is_the_references(n):
    graph = grad_graph(recursion_graph(), [1])
    arguments = [np.array(n), np.array(0.7)]
    value, (gradient,) = pipeline.compile(graph)(arguments)
    expected, (slope,) = evaluate(graph, arguments)
    np.testing.assert_allclose([value, gradient], [expected, slope], rtol=1e-12)
