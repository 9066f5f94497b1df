"""The reference evaluator: scopes, control flow without Python's stack, effects once and in order."""

import gc
import tracemalloc

import numpy as np
import pytest
from mindscope.framework import Parameter, ShapeError, Tensor, random
from mindscope.framework.compiler.graph_evaluator import Closure, Evaluator, evaluate
from mindscope.framework.errors import EngineError
from mindscope.framework.ir import ConstantNode, Graph, type_of
from mindscope.framework.ir.ir_graph import Where

from tests.framework.compiler.graphs import F64, I64, branch, declared, loop_graph, op, recursion_graph


def test_a_straight_line_is_evaluated():
    g = Graph("g")
    x, y = g.add_parameter(F64), g.add_parameter(F64)
    g.output = op(g, "make_tuple", op(g, "add", op(g, "multiply", x, y), 1.0), x)
    assert evaluate(g, [np.array(3.0), np.array(4.0)]) == (13.0, 3.0)


def test_a_loop_of_a_hundred_thousand_turns_needs_neither_stack_nor_memory():
    run = Evaluator(loop_graph(lambda g, i, x: op(g, "add", x, 0.5), F64))
    assert run([np.array(100_000), np.array(1.0)]) == 50_001.0
    gc.collect()
    tracemalloc.start()
    try:
        assert run([np.array(5_000), np.array(1.0)]) == 2_501.0
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_recursion_may_be_deep():
    def slow(n, x):
        total = 0.0
        for _ in range(n):
            total, x = total + np.sin(x), x * 0.5
        return total + x

    run = Evaluator(recursion_graph())
    assert run([np.array(5), np.array(1.3)]) == pytest.approx(slow(5, 1.3), rel=1e-15)
    assert run([np.array(20_000), np.array(1.3)]) == pytest.approx(slow(20_000, 1.3), rel=1e-12)


def test_mutual_recursion():
    even, odd = Graph("even"), Graph("odd")
    numbers = {graph: graph.add_parameter(I64, "n") for graph in (even, odd)}
    boolean = type_of(np.array(True))
    for graph, other, answer in ((even, odd, True), (odd, even, False)):
        stop, step = Graph("stop"), Graph("step")
        stop.output = ConstantNode(np.array(answer))
        step.output = step.call(declared(other, boolean), op(step, "subtract", numbers[graph], 1))
        graph.output = branch(graph, op(graph, "equal", numbers[graph], 0), stop, step, boolean)
    assert evaluate(even, [np.array(10_000)])
    assert not evaluate(even, [np.array(10_001)])


def _adder():
    """`outer(a) = inner`, `inner(b) = innermost`, `innermost(c) = a + 10 b + 100 c`."""
    outer, inner, innermost = Graph("outer"), Graph("inner"), Graph("innermost")
    a, b, c = (g.add_parameter(F64) for g in (outer, inner, innermost))
    tens = op(innermost, "add", op(innermost, "multiply", b, 10.0), op(innermost, "multiply", c, 100.0))
    innermost.output = op(innermost, "add", a, tens)
    inner.output = ConstantNode(innermost)
    outer.output = ConstantNode(inner)
    return outer


def test_closures_keep_what_they_borrow_and_are_results_like_others():
    inner = evaluate(_adder(), [np.array(1.0)])
    assert isinstance(inner, Closure)
    two, three = inner(np.array(2.0)), inner(np.array(3.0))
    assert two(np.array(5.0)) == 521.0
    assert three(np.array(5.0)) == 531.0


def test_a_closure_of_a_loop_variable_belongs_to_its_turn():
    def turn(g, i, x):
        inner = Graph("inner")
        inner.output = op(inner, "add", x, op(inner, "cast", i, dtype=np.dtype(np.float64)))
        return g.call(inner)

    assert evaluate(loop_graph(turn, F64), [np.array(10), np.array(0.0)]) == 45.0


def test_what_a_branch_borrows_is_computed_once():
    outer, left, right = Graph("outer"), Graph("left"), Graph("right")
    x = outer.add_parameter(F64)
    key = op(outer, "next_key")
    draw = op(outer, "normal", key, shape=(), dtype=np.dtype(np.float64))
    left.output = op(left, "add", draw, x)
    right.output = op(right, "subtract", draw, x)
    first = branch(outer, op(outer, "less", x, 0.0), left, right, F64)
    outer.output = op(outer, "subtract", first, draw)
    random.set_seed(3)
    assert evaluate(outer, [np.array(2.0)]) == pytest.approx(-2.0)
    assert random.get_state()[1] == 1


def _update(weight):
    """Two assignments one after the other, and a read of the value at entry: `(w0 * 10, w2)`."""
    g = Graph("update")
    w = g.add_parameter(type_of(weight), "w", weight)
    first = op(g, "assign", w, op(g, "add", w, 1.0))
    second = op(g, "assign", w, op(g, "multiply", first, 2.0), first)
    g.output = op(g, "depend", op(g, "make_tuple", op(g, "multiply", w, 10.0), second), second)
    return g


def test_assignment_is_seen_by_later_runs_and_by_its_own_result():
    weight = Parameter(np.array([1.0, 2.0]), "w")
    run = Evaluator(_update(weight))
    old, new = run([weight.numpy()])
    assert old.tolist() == [10.0, 20.0]
    assert new.tolist() == weight.tolist() == [4.0, 6.0]
    assert run([weight.numpy()])[0].tolist() == [40.0, 60.0]


def test_a_run_that_fails_assigns_nothing():
    weight = Parameter(np.array([1.0, 2.0]), "w")
    g = _update(weight)
    indices = g.add_parameter(type_of(np.array([0])), "i")
    table = g.add_parameter(type_of(np.ones((2, 2))), "t")
    g.output = op(g, "make_tuple", g.output, op(g, "gather", table, indices))
    with pytest.raises(EngineError, match="gather"):
        evaluate(g, [weight.numpy(), np.array([9]), np.ones((2, 2))])
    assert weight.tolist() == [1.0, 2.0]


def test_an_error_names_primitive_shapes_and_place():
    g = Graph("g")
    spec = type_of(np.ones((2, 3)))
    g.output = op(g, "add", g.add_parameter(spec), g.add_parameter(spec))
    g.output.where = Where("net.head", "model.py", 12)
    with pytest.raises(ShapeError, match=r"'add' cannot take \(2, 3\) float64, \(2, 4\).*net.head model.py:12"):
        evaluate(g, [np.ones((2, 3)), np.ones((2, 4))])


def test_nobody_can_change_a_graph_through_its_result():
    g = Graph("g")
    table = np.arange(6.0)
    view = op(g, "reshape", Tensor(table), shape=(2, 3))
    g.output = op(g, "make_tuple", ConstantNode(Tensor(table)), op(g, "make_tuple", view))
    run = Evaluator(g)
    whole, (part,) = run([])
    whole[:] = part[:] = -1.0
    assert run([])[0].tolist() == run([])[1][0].reshape(-1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_wrong_number_of_arguments_names_the_graph():
    with pytest.raises(EngineError, match=r"'loop' expects 2 arguments \(n, x\), got 1"):
        evaluate(loop_graph(lambda g, i, x: x, F64), [np.array(1)])
