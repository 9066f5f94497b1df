"""Types found anew, fixpoints of recursion, and graphs for certain lengths."""

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, ShapeError
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.compiler.infer import infer
from mindscope.framework.errors import EngineError
from mindscope.framework.ir import ConstantNode, FunctionType, Graph, equal, visit
from mindscope.framework.ir.clone import bind
from mindscope.framework.ir.ir_graph import Apply
from mindscope.framework.ir.ir_types import UNKNOWN
from mindscope.framework.ir.verify import verify
from mindscope.framework.specs import Spec
from mindscope.framework.symbolic import Dim

from tests.framework.compiler.graphs import F64, I64, loop_graph, op, recursion_graph

N = Dim("n")


def forget(graph):
    """The graph, with no type left but those of its parameters."""
    for inner in visit.reachable(graph):
        for node in visit.order(inner):
            node.type = UNKNOWN
            node.inputs = [
                ConstantNode(x.value, FunctionType(tuple(p.type for p in x.value.parameters), UNKNOWN))
                if isinstance(x, ConstantNode) and isinstance(x.value, Graph)
                else x
                for x in node.inputs
            ]
    return graph


@pytest.mark.parametrize("make", [recursion_graph, lambda: loop_graph(lambda g, i, x: op(g, "sin", x), F64)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_types_of_loops_recursion_and_their_gradients_are_found_again(make, order):
    def graph():
        found = make()
        for _ in range(order):
            both = grad_graph(found, [1])
            found = Graph("first")
            copies = [found.add_parameter(p.type, p.name) for p in both.parameters]
            pair = op(found, "tuple_getitem", found.call(both, *copies), index=1)
            found.output = op(found, "tuple_getitem", pair, index=0)
        return found

    verify(graph())
    again = infer(forget(graph()))
    verify(again)
    assert equal(again, graph())


def test_a_loop_that_changes_a_shape_says_so():
    grows = loop_graph(lambda g, i, x: op(g, "concat", x, x, axis=0), Spec((3,), np.dtype(np.float64)))
    with pytest.raises(ShapeError, match=r"'x' of 'while' is float64\[3\] at first and float64\[6\] later.*must keep"):
        infer(grows)


def test_an_operation_that_cannot_take_new_types_names_itself():
    g = Graph("g")
    g.output = op(g, "add", g.add_parameter(F64), g.add_parameter(F64))
    wide = [Spec((n,), np.dtype(np.float64)) for n in (3, 4)]
    with pytest.raises(EngineError, match=r"'add' in 'g' cannot take float64\[3\], float64\[4\]"):
        infer(g, wide)
    assert infer(g, wide[:1] * 2).result.type == wide[0]


def test_a_graph_for_all_lengths_is_bound_to_one():
    g = Graph("g")
    x = g.add_parameter(Spec((N, 3), np.dtype(np.float64)), "x")
    flat = op(g, "reshape", x, shape=(N * 3,))
    g.output = op(g, "sum", op(g, "multiply", flat, 1.0 / N), axes=(0,), keepdims=False)
    verify(g)
    bound = bind(g, {"n": 4})
    verify(bound)
    assert bound.parameters[0].type.shape == (4, 3)
    assert float(evaluate(bound, [np.ones((4, 3))])) == 3.0
    assert g.parameters[0].type.shape == (N, 3)


def test_a_misplaced_type_is_found_out():
    def broken(change):
        g = loop_graph(lambda g, i, x: op(g, "sin", x), F64)
        change(g)
        with pytest.raises(EngineError) as error:
            verify(g)
        return str(error.value)

    header = next(g for g in visit.reachable(loop_graph(lambda g, i, x: x, F64)) if g.name == "while")

    def wrong_type(g):
        visit.order(visit.reachable(g)[-1])
        g.output.type = I64

    def wrong_argument(g):
        g.output.inputs[2] = g.parameters[0]

    def out_of_scope(g):
        g.output.inputs[1] = header.parameters[0]

    def unhashable(g):
        g.output = Apply(g, [ConstantNode(PRIMITIVES["sum"]), g.parameters[1]], F64, {"axes": [], "keepdims": False})

    assert "has type int64[] but computes float64[]" in broken(wrong_type)
    assert "calls a function of (int64[], float64[]) with (int64[], int64[])" in broken(wrong_argument)
    assert "belongs to graph 'while' but is used where that is not running" in broken(out_of_scope)
    assert "cannot be hashed" in broken(unhashable)
