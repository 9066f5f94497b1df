"""Gradients of graphs: closed forms, finite differences, PyTorch-free: loops, recursion, closures, any order."""

import numpy as np
import pytest
from mindscope.framework.compiler.grad import grad_graph
from mindscope.framework.compiler.vm import Evaluator, evaluate
from mindscope.framework.ir import Graph, visit

from tests.framework.compiler.graphs import F64, loop_graph, op, recursion_graph


def derivative(graph, *arguments, wrt=1, order=1):
    """The derivative of that order by one parameter of a graph that returns a scalar."""
    for _ in range(order):
        both = grad_graph(graph, [wrt])
        graph = Graph("picked")
        copies = [graph.add_parameter(p.type) for p in both.parameters]
        graph.output = op(
            graph, "tuple_getitem", op(graph, "tuple_getitem", graph.call(both, *copies), index=1), index=0
        )
    return float(evaluate(graph, [np.array(x) for x in arguments]))


def slope(graph, *arguments, wrt=1, step=1e-6):
    """The same by central differences."""
    run = Evaluator(graph)
    moved = [[np.array(x) for x in arguments] for _ in range(2)]
    moved[0][wrt] = moved[0][wrt] + step
    moved[1][wrt] = moved[1][wrt] - step
    return (float(run(moved[0])) - float(run(moved[1]))) / (2 * step)


def product(g, x, y):
    return op(g, "multiply", op(g, "sin", x), y)


def test_a_straight_line_is_differentiated_without_closures():
    g = Graph("line")
    x, y = g.add_parameter(F64), g.add_parameter(F64)
    g.output = product(g, x, y)
    both = grad_graph(g, [0, 1])
    assert visit.reachable(both) == [both]
    value, (dx, dy) = evaluate(both, [np.array(0.3), np.array(2.0)])
    assert value == np.sin(0.3) * 2.0
    assert dx == np.cos(0.3) * 2.0
    assert dy == np.sin(0.3)


def test_only_what_is_asked_for_is_computed():
    g = Graph("line")
    x, y = g.add_parameter(F64), g.add_parameter(F64)
    g.output = product(g, x, y)
    both = grad_graph(g, [1])
    names = {node.function.value.name for node in visit.order(both)}
    assert "cos" not in names


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_a_loop_is_differentiated_without_unrolling(turns):
    graph = loop_graph(lambda g, i, x: op(g, "multiply", op(g, "sin", x), 1.5), F64)
    assert derivative(graph, turns, 0.7) == pytest.approx(slope(graph, turns, 0.7), rel=1e-8, abs=1e-9)
    assert derivative(graph, turns, 0.7, order=2) == pytest.approx(_bend(graph, turns, 0.7), rel=1e-6, abs=1e-6)


def _bend(graph, *arguments, step=1e-5):
    up, down = (derivative(graph, *arguments[:1], arguments[1] + s * step) for s in (1, -1))
    return (up - down) / (2 * step)


def test_a_long_loop_has_a_gradient():
    graph = loop_graph(lambda g, i, x: op(g, "multiply", x, 0.9999), F64)
    assert derivative(graph, 20_000, 2.0) == pytest.approx(0.9999**20_000, rel=1e-9)


def test_recursion_has_a_gradient():
    graph = recursion_graph()
    expected = sum(np.cos(1.3 * 0.5**k) * 0.5**k for k in range(6)) + 0.5**6
    assert derivative(graph, 6, 1.3) == pytest.approx(expected, rel=1e-12)
    bend = -sum(np.sin(1.3 * 0.5**k) * 0.25**k for k in range(6))
    assert derivative(graph, 6, 1.3, order=2) == pytest.approx(bend, rel=1e-12)
    third = -sum(np.cos(1.3 * 0.5**k) * 0.125**k for k in range(6))
    assert derivative(graph, 6, 1.3, order=3) == pytest.approx(third, rel=1e-12)
