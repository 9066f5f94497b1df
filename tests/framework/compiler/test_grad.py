"""Gradients of graphs: closed forms, finite differences, PyTorch-free: loops, recursion, closures, any order."""

import numpy as np
import pytest
from mindscope.framework import GradientError, Parameter, set_seed
from mindscope.framework.compiler.graph_evaluator import Evaluator, evaluate
from mindscope.framework.compiler.graph_gradient import forward_and_pullback, grad_graph
from mindscope.framework.compiler.pipeline import optimize
from mindscope.framework.ir import ConstantNode, FunctionType, Graph, type_of, visit
from mindscope.framework.ir.verify import verify

from tests.framework.compiler.graphs import F64, I64, declared, loop_graph, op, recursion_graph


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


def _closure_graph():
    """`f(k, x, y)`: `(u -> u * x + y)` or `(u -> sin(u) * y)`, chosen by k, applied twice to x."""
    g, left, right = Graph("choice"), Graph("left"), Graph("right")
    k, x, y = g.add_parameter(I64, "k"), g.add_parameter(F64, "x"), g.add_parameter(F64, "y")
    u = left.add_parameter(F64, "u")
    left.output = op(left, "add", op(left, "multiply", u, x), y)
    v = right.add_parameter(F64, "v")
    right.output = op(right, "multiply", op(right, "sin", v), y)
    chosen = op(g, "switch", op(g, "greater", k, 0), declared(left, F64), declared(right, F64))
    g.output = g.call(chosen, g.call(chosen, x))
    return g


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("wrt", [1, 2])
def test_what_a_closure_borrows_gets_its_gradient(k, wrt):
    graph = _closure_graph()
    assert derivative(graph, k, 0.7, 1.9, wrt=wrt) == pytest.approx(slope(graph, k, 0.7, 1.9, wrt=wrt), rel=1e-8)
    second = derivative(graph, k, 0.7, 1.9, wrt=wrt, order=2)
    x, y, s = 0.7, 1.9, np.sin
    curvature = {
        (1, 1): 6 * x,
        (1, 2): 0.0,
        (0, 1): -(y**3) * np.cos(x) ** 2 * s(s(x) * y) - y**2 * s(x) * np.cos(s(x) * y),
        (0, 2): 2 * s(x) * np.cos(s(x) * y) - y * s(x) ** 2 * s(s(x) * y),
    }
    assert second == pytest.approx(curvature[k, wrt], rel=1e-12)


def _higher_order():
    """`twice(f)(x)` with `twice(f) = u -> f(f(u))` and `f(u) = u * a`: functions as arguments and results."""
    g, twice, composed, f = Graph("g"), Graph("twice"), Graph("composed"), Graph("f")
    a, x = g.add_parameter(F64, "a"), g.add_parameter(F64, "x")
    u = f.add_parameter(F64, "u")
    f.output = op(f, "multiply", op(f, "multiply", u, u), a)
    inner = twice.add_parameter(FunctionType((F64,), F64), "f")
    v = composed.add_parameter(F64, "v")
    composed.output = composed.call(inner, composed.call(inner, v))
    twice.output = ConstantNode(composed, composed.type)
    g.output = g.call(g.call(twice, ConstantNode(f, f.type)), x)
    return g


def test_functions_that_are_passed_and_returned_have_gradients():
    graph, a, x = _higher_order(), 1.3, 0.8  # a (a x^2)^2 = a^3 x^4
    assert float(evaluate(graph, [np.array(a), np.array(x)])) == pytest.approx(a**3 * x**4)
    assert derivative(graph, a, x, wrt=0) == pytest.approx(3 * a**2 * x**4, rel=1e-12)
    assert derivative(graph, a, x, wrt=1) == pytest.approx(4 * a**3 * x**3, rel=1e-12)
    assert derivative(graph, a, x, wrt=0, order=2) == pytest.approx(6 * a * x**4, rel=1e-12)
    assert derivative(graph, a, x, wrt=1, order=2) == pytest.approx(12 * a**3 * x**2, rel=1e-12)


def test_a_loop_that_no_gradient_flows_through_keeps_its_constant_space():
    count = loop_graph(lambda g, i, x: op(g, "add", x, 1), I64, "count")
    g = Graph("g")
    n, x = g.add_parameter(I64, "n"), g.add_parameter(F64, "x")
    turns = op(g, "cast", g.call(count, n, n), dtype=np.dtype(np.float64))
    g.output = op(g, "multiply", x, turns)
    both = grad_graph(g, [1])
    assert {graph.name for graph in visit.reachable(both)} == {"grad.g", "count", "while", "body", "end"}
    assert derivative(g, 10_000, 2.0) == 20_000.0


def test_forward_and_pullback_of_a_loop_share_nothing_but_the_residuals():
    graph = loop_graph(lambda g, i, x: op(g, "multiply", op(g, "sin", x), 1.5), F64)
    forward, back = forward_and_pullback(graph)
    value, *residuals = evaluate(forward, [np.array(5), np.array(0.7)])
    assert value == evaluate(graph, [np.array(5), np.array(0.7)])
    assert not set(visit.reachable(forward)) & set(visit.reachable(back))
    (dx,) = evaluate(back, [*residuals, np.array(2.0)])
    assert dx == pytest.approx(2.0 * derivative(graph, 5, 0.7), rel=1e-14)


def test_forward_and_pullback_of_several_results():
    g = Graph("g")
    x, i = g.add_parameter(F64, "x"), g.add_parameter(I64, "i")
    y = op(g, "sin", x)
    g.output = op(g, "make_tuple", y, i, op(g, "exp", x))
    forward, back = forward_and_pullback(g)
    (_, _, e), *residuals = evaluate(forward, [np.array(0.5), np.array(3)])
    assert evaluate(back, [*residuals, np.array(2.0), np.array(10.0)])[0] == 2.0 * np.cos(0.5) + 10.0 * e
    forward, back = forward_and_pullback(g, [0], cotangents=[2])
    _, *residuals = evaluate(forward, [np.array(0.5), np.array(3)])
    assert len(residuals) == 1
    assert evaluate(back, [*residuals, np.array(10.0)])[0] == 10.0 * e


def test_a_key_taken_on_the_way_forward_is_the_same_on_the_way_back():
    g = Graph("g")
    x = g.add_parameter(type_of(np.ones(1000)), "x")
    dropped = op(g, "dropout", x, op(g, "next_key"), rate=0.5)
    g.output = op(g, "make_tuple", op(g, "sum", dropped, axes=(0,), keepdims=False), dropped)
    set_seed(5)
    (_, kept), (dx,) = evaluate(grad_graph(g, [0]), [np.ones(1000)])
    assert 0 < np.count_nonzero(kept) < 1000
    np.testing.assert_array_equal(dx, kept)


def test_an_observed_gradient_is_shown_and_a_mark_has_one():
    seen = []

    class Tap:
        def value(self, array):
            seen.append(("value", array.copy()))

        def gradient(self, array):
            seen.append(("gradient", array.copy()))

    g = Graph("g")
    x = g.add_parameter(F64, "x")
    y = op(g, "mark", op(g, "observe", op(g, "sin", x), hook=Tap()), cell="head", call=0, index=0)
    g.output = op(g, "multiply", y, 3.0)
    both = grad_graph(g, [0])
    evaluate(both, [np.array(0.5)])
    assert seen == [("value", np.sin(0.5)), ("gradient", 3.0)]
    assert any(node.applies("mark_gradient") for node in visit.order(both))


def test_an_assigned_weight_keeps_its_gradient_and_what_was_assigned_has_none():
    weight = Parameter(np.array(2.0), "w")
    g = Graph("g")
    x, w = g.add_parameter(F64, "x"), g.add_parameter(F64, "w", weight)
    new = op(g, "assign", w, op(g, "multiply", x, 5.0))
    g.output = op(g, "depend", op(g, "multiply", op(g, "multiply", new, x), w), new)
    value, (dx, dw) = evaluate(grad_graph(g, [0, 1]), [np.array(3.0), weight.numpy()])
    assert float(value) == 15.0 * 3.0 * 2.0
    assert float(dx) == 15.0 * 2.0
    assert float(dw) == 3.0 * 2.0 + 15.0 * 3.0
    assert weight.numpy() == 15.0


def test_a_gradient_needs_a_scalar_to_start_from_and_a_float_to_end_at():
    g = Graph("g")
    x, _ = g.add_parameter(type_of(np.ones(3)), "x"), g.add_parameter(I64, "i")
    g.output = op(g, "multiply", x, 2.0)
    with pytest.raises(GradientError, match="needs a floating-point scalar"):
        grad_graph(g, [0])
    with pytest.raises(GradientError, match=r"parameter 1 \(i\)"):
        forward_and_pullback(g, [1])


_PROGRAMS = [
    (loop_graph(lambda g, i, x: op(g, "multiply", op(g, "sin", x), 1.5), F64), [1], (4, 0.7)),
    (recursion_graph(), [1], (4, 0.7)),
    (_closure_graph(), [1, 2], (1, 0.7, 0.3)),
    (_higher_order(), [0, 1], (1.3, 0.7)),
]


@pytest.mark.parametrize("number", range(4))
def test_gradients_stay_well_formed_and_right_through_every_pass(number):
    graph, wrt, values = _PROGRAMS[number]
    arrays = [np.array(x) for x in values]
    both = verify(grad_graph(graph, wrt))
    expected = evaluate(both, arrays)[1]
    np.testing.assert_allclose(evaluate(optimize(both, check=verify), arrays)[1], expected, rtol=1e-13)
    forward, back = (optimize(part, check=verify) for part in forward_and_pullback(graph, wrt))
    _, *residuals = evaluate(forward, arrays)
    np.testing.assert_allclose(evaluate(back, [*residuals, np.array(1.0)]), expected, rtol=1e-13)
