"""Walks over graphs: who borrows what, in which order nodes run, who uses whom."""

import pytest
from mindscope.framework import PRIMITIVES
from mindscope.framework.errors import EngineError
from mindscope.framework.ir import Apply, ConstantNode, Graph
from mindscope.framework.ir.visit import Scopes, free_variables, order, reachable, users

from tests.framework.compiler.graphs import F64, declared, loop_graph, op


def nested():
    """outer(a) uses inner(), which uses innermost(), which uses a node of outer and one of inner."""
    outer, inner, innermost = Graph("outer"), Graph("inner"), Graph("innermost")
    a = outer.add_parameter(F64, "a")
    doubled = op(outer, "multiply", a, 2.0)
    shifted = op(inner, "add", a, 1.0)
    innermost.output = op(innermost, "multiply", doubled, shifted)
    inner.output = inner.call(innermost)
    outer.output = outer.call(inner)
    return outer, inner, innermost, a, doubled, shifted


def test_what_an_inner_closure_borrows_is_borrowed_by_those_around_it():
    outer, inner, innermost, a, doubled, shifted = nested()
    assert set(free_variables(innermost)) == {doubled, shifted}
    scopes = Scopes(outer)
    assert set(scopes.free[inner]) == {a, doubled}
    assert not scopes.free[outer]
    assert reachable(outer) == [outer, inner, innermost]
    assert scopes.holders(innermost) == [inner]


def test_what_a_closure_borrows_runs_before_the_closure_is_made():
    outer, inner, _, _, doubled, shifted = nested()
    assert order(outer) == (doubled, outer.output)
    assert Scopes(outer).order(inner) == (shifted, inner.output)


def test_recursive_graphs_borrow_no_more_than_they_use():
    root = loop_graph(lambda g, i, x: op(g, "sin", x), F64)
    by_name = {graph.name: graph for graph in reachable(root)}
    scopes = Scopes(root)
    assert set(by_name) == {"loop", "while", "body", "end"}
    assert set(scopes.free[by_name["while"]]) == {root.parameters[0]}
    assert set(scopes.free[by_name["body"]]) == {*by_name["while"].parameters, root.parameters[0]}
    assert set(scopes.holders(by_name["while"])) == {root, by_name["body"]}


def test_dead_nodes_are_not_visited():
    g = Graph("g")
    x = g.add_parameter(F64, "x")
    op(g, "sin", x)
    g.output = op(g, "cos", x)
    assert order(g) == (g.output,)


def test_users_are_found_in_all_graphs_once_each():
    outer, _, innermost, a, doubled, shifted = nested()
    found = users(outer)
    assert found[a] == [doubled, shifted]
    assert found[doubled] == [innermost.output]
    g = Graph("g")
    x = g.add_parameter(F64, "x")
    g.output = op(g, "multiply", x, x)
    assert users(g)[x] == [g.output]


def test_a_value_that_depends_on_itself_is_an_error():
    g = Graph("g")
    x = g.add_parameter(F64, "x")
    first = op(g, "sin", x)
    second = op(g, "cos", first)
    first.inputs[1] = second
    g.output = second
    with pytest.raises(EngineError, match="depends on itself"):
        order(g)
    knot = Graph("knot")
    inner = Graph("inner")
    node = knot.call(declared(inner, F64))
    inner.output = op(inner, "sin", node)
    knot.output = node
    with pytest.raises(EngineError, match="depends on itself"):
        order(knot)


def test_a_chain_of_a_hundred_thousand_nodes_needs_no_stack():
    g = Graph("long")
    node = g.add_parameter(F64, "x")
    for _ in range(100_000):
        node = Apply(g, [ConstantNode(PRIMITIVES["negative"]), node], F64)
    g.output = node
    assert len(order(g)) == 100_000
