"""Copies and bodies written into callers compute what the original does, and leave it alone."""

import numpy as np
import pytest
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.ir import Graph, equal
from mindscope.framework.ir.clone import clone, inline
from mindscope.framework.ir.printer import to_text
from mindscope.framework.ir.verify import verify
from mindscope.framework.ir.visit import order, reachable

from tests.framework.compiler.graphs import F64, I64, loop_graph, op, recursion_graph

ARGUMENTS = [np.array(4), np.array(0.7)]


def graphs():
    loop = loop_graph(lambda g, i, x: op(g, "multiply", op(g, "sin", x), 1.5), F64)
    return [loop, recursion_graph(), grad_graph(loop, [1]), grad_graph(recursion_graph(), [1])]


@pytest.mark.parametrize("number", range(4))
def test_a_copy_shares_no_application_with_the_original(number):
    graph = graphs()[number]
    copy = clone(graph)
    assert equal(verify(copy), graph)
    nodes = [{node for inner in reachable(g) for node in order(inner)} for g in (graph, copy)]
    assert not nodes[0] & nodes[1]
    assert not set(reachable(graph)) & set(reachable(copy))


@pytest.mark.parametrize("number", range(4))
def test_a_body_written_into_its_caller_computes_the_same_twice(number):
    graph = graphs()[number]
    before = to_text(graph)
    caller = Graph("caller")
    n, x = caller.add_parameter(I64, "n"), caller.add_parameter(F64, "x")
    first = inline(graph, [n, x], caller)
    second = inline(graph, [n, op(caller, "multiply", x, 2.0)], caller)
    caller.output = op(caller, "make_tuple", first, second)
    verify(caller)
    found = evaluate(caller, ARGUMENTS)
    assert found == (evaluate(graph, ARGUMENTS), evaluate(graph, [ARGUMENTS[0], ARGUMENTS[1] * 2.0]))
    assert to_text(graph) == before


def test_free_variables_of_a_copy_can_be_given_others():
    outer, inner = Graph("outer"), Graph("inner")
    x, y = outer.add_parameter(F64, "x"), outer.add_parameter(F64, "y")
    inner.output = op(inner, "sin", x)
    outer.output = op(outer, "add", outer.call(inner), outer.call(clone(inner, {x: y})))
    verify(outer)
    assert evaluate(outer, [np.array(0.3), np.array(0.9)]) == np.sin(0.3) + np.sin(0.9)


def test_a_closure_written_into_its_caller_borrows_from_there():
    f, inner = Graph("f"), Graph("inner")
    x = f.add_parameter(F64, "x")
    twice = op(f, "multiply", x, 2.0)
    u = inner.add_parameter(F64, "u")
    inner.output = op(inner, "add", u, twice)
    f.output = f.call(inner, x)
    caller = Graph("caller")
    y = caller.add_parameter(F64, "y")
    caller.output = inline(f, [y], caller)
    assert f not in reachable(verify(caller))
    assert evaluate(caller, [np.array(5.0)]) == 15.0


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        inline(recursion_graph(), [], Graph("caller"))
