"""Each pass does what its docstring says, and keeps the values."""

import numpy as np
import pytest
from mindscope.framework import Tensor, ops
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.passes.algebra import expand, pool_first, simplify
from mindscope.framework.compiler.passes.fuse import Fused, fuse
from mindscope.framework.compiler.passes.structural_passes import drop_marks, fold_constants, inline, share_common
from mindscope.framework.ir import ConstantNode, Graph
from mindscope.framework.ir.verify import verify
from mindscope.framework.ir.visit import order, reachable
from mindscope.framework.specs import Spec

from tests.framework.compiler.captured import captured, gradients_graph
from tests.framework.compiler.graphs import F64, I64, branch, loop_graph, op, recursion_graph

_MATRIX = Spec((3, 4), np.dtype(np.float64))
_VALUES = np.random.default_rng(0).normal(size=(3, 4))


def _names(graph):
    return [getattr(node.inputs[0].value, "name", "?") for node in order(graph)]


def _after(run, fn, *types):
    graph = captured(fn, types or [_MATRIX])
    made = run(graph)
    verify(made)
    arrays = [_VALUES for _ in graph.parameters]
    np.testing.assert_array_equal(evaluate(made, arrays), evaluate(graph, arrays))
    return _names(made)


@pytest.mark.parametrize(
    ("fn", "left"),
    [
        (lambda x: x * 1.0 + 2.0, ["add"]),
        (lambda x: (x / 1.0) - 0.0 + 2.0, ["add"]),
        (lambda x: x.T.T + 2.0, ["add"]),
        (lambda x: x.reshape(12).reshape(2, 6), ["reshape"]),
        (lambda x: x.reshape(3, 4) + 2.0, ["add"]),
        (lambda x: x.swapaxes(0, 1).transpose((1, 0)) + 1.0, ["add"]),
        (lambda x: ops.stop_gradient(x) + 1.0, ["add"]),
        (lambda x: x + ops.broadcast_to(x.sum(), (3, 4)), ["sum", "add"]),
        (lambda x: ops.negative(ops.negative(x)) * 2.0, ["multiply"]),
    ],
)
def test_what_changes_nothing_is_taken_out(fn, left):
    assert _after(simplify, fn) == left


def test_adding_a_positive_zero_stays_because_of_the_negative_one():
    assert _after(simplify, lambda x: x + 0.0) == ["add"]


def test_a_cast_to_a_narrower_type_and_back_stays():
    assert _after(simplify, lambda x: x.astype("float32").astype("float64")) == ["cast", "cast"]
    single = captured(lambda x: x.astype("float64").astype("float32") * 2.0, [Spec((3,), np.dtype(np.float32))])
    assert _names(simplify(single)) == ["multiply"]


def test_constants_are_folded_and_errors_are_left_for_the_run():
    two = Tensor(np.full((4,), 2.0))
    assert _after(fold_constants, lambda x: x + ops.exp(two) * 3.0) == ["add"]


def test_equal_applications_are_computed_once():
    assert _after(share_common, lambda x: ops.tanh(x) * ops.tanh(x)) == ["tanh", "multiply"]
    assert _after(share_common, lambda x: x.sum(0) + x.sum(0, keepdims=True)) == ["sum", "sum", "add"]


def test_linear_is_a_product_and_a_sum():
    weight, bias = Tensor(np.ones((2, 4))), Tensor(np.ones(2))
    assert _after(expand, lambda x: ops.linear(x, weight, bias)) == ["swapaxes", "matmul", "add"]


def test_marks_are_dropped():
    graph = Graph("f")
    x = graph.add_parameter(F64)
    graph.output = op(graph, "negative", op(graph, "mark", x, cell=None, call=0, index=0))
    assert _names(drop_marks(graph)) == ["negative"]


def test_calls_disappear_and_closures_with_them():
    outer, inner = Graph("outer"), Graph("inner")
    x = outer.add_parameter(F64)
    y = inner.add_parameter(F64)
    inner.output = op(inner, "add", y, x)  # x is free
    pair = op(outer, "make_tuple", ConstantNode(inner, inner.type), x)
    chosen = op(outer, "tuple_getitem", pair, index=0)
    outer.output = outer.call(chosen, op(outer, "sin", x))
    made = inline(outer)
    verify(made)
    assert _names(made) == ["sin", "add"]
    np.testing.assert_allclose(evaluate(made, [np.array(0.5)]), np.sin(0.5) + 0.5)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_recursion_and_loops_stay_and_keep_their_values(n):
    loop = loop_graph(lambda graph, i, state: op(graph, "sin", state), F64)
    for graph in (loop, recursion_graph()):
        made = inline(graph)
        verify(made)
        assert len(reachable(made)) > 1
        np.testing.assert_array_equal(evaluate(made, [n, np.array(0.7)]), evaluate(graph, [n, np.array(0.7)]))


def test_a_choice_by_a_constant_is_made_at_once():
    root, yes, no = Graph("f"), Graph("yes"), Graph("no")
    x = root.add_parameter(F64)
    yes.output, no.output = op(yes, "sin", x), op(no, "cos", x)
    root.output = branch(root, ConstantNode(Tensor(np.array(True))), yes, no, F64)
    assert _names(inline(root)) == ["sin"]
    assert I64 != F64


def test_a_chain_and_the_sum_of_its_result_become_one_kernel():
    graph = captured(lambda x: (ops.relu(x * 2.0 + 1.0)).sum(0), [_MATRIX])
    kinds = {"relu": "element", "multiply": "element", "add": "element", "sum": "sum"}
    made = fuse(graph, lambda node: kinds.get(node.inputs[0].value.name))
    verify(made)
    (call,) = order(made)
    assert isinstance(call.inputs[0].value, Fused)
    np.testing.assert_array_equal(evaluate(made, [_VALUES]), evaluate(graph, [_VALUES]))


def test_a_group_never_closes_a_path_that_leaves_it():
    def softmax(x):
        e = ops.exp(x - 1.0)
        return e / e.sum(-1, keepdims=True) * 2.0  # the quotient needs the finished sum

    kinds = {"exp": "element", "subtract": "element", "divide": "element", "multiply": "element", "sum": "sum"}
    graph = captured(softmax, [_MATRIX])
    made = fuse(graph, lambda node: kinds.get(node.inputs[0].value.name))
    verify(made)
    assert sum(isinstance(node.inputs[0].value, Fused) for node in order(made)) == 2
    np.testing.assert_array_equal(evaluate(made, [_VALUES]), evaluate(graph, [_VALUES]))


def test_pooling_moves_before_the_activation_with_its_gradient():
    x = Tensor(np.random.default_rng(1).normal(size=(2, 3, 6, 6)) - 1.0)
    x.numpy()[0, 0, :2, :2] = -1.0  # a window without a positive element

    def fn(x):
        y = ops.max_pool2d(ops.relu(x * 2.0), 2)
        return (y * y).sum() + y.sum()

    graph = simplify(inline(gradients_graph(fn, [x], [0])))
    made = pool_first(graph)
    verify(made)
    names = _names(made)
    assert names.index("max_pool") < names.index("relu")
    assert names.index("relu_gradient") < names.index("put_places")
    found, expected = evaluate(made, [x.numpy()]), evaluate(graph, [x.numpy()])
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1][0], expected[1][0])


def test_pooling_stays_where_the_activation_is_used_elsewhere():
    x = Tensor(np.ones((1, 1, 4, 4)))

    def fn(x):
        y = ops.relu(x)
        return ops.max_pool2d(y, 2).sum() + y.sum()

    graph = gradients_graph(fn, [x], [0])
    names = _names(pool_first(graph))
    assert names.index("relu") < names.index("max_pool")
