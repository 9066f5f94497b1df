"""Graphs as text: what is printed is read back as the same graph; what is no graph is one clear error."""

import os
import random

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Parameter, Tensor, bfloat16
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.dtype import is_inexact
from mindscope.framework.ir import Apply, ConstantNode, Graph, equal, type_of
from mindscope.framework.ir.ir_graph import Where
from mindscope.framework.ir.parser import ParseError, parse
from mindscope.framework.ir.printer import to_text
from mindscope.framework.ir.verify import VerifyError, verify
from mindscope.framework.ops.convolution_ops import ConvolutionWindow
from mindscope.framework.ops.indexing_ops import Slice
from mindscope.framework.ops.sliding_window import PoolWindow
from mindscope.framework.random import Key
from mindscope.framework.specs import Spec
from mindscope.framework.symbolic import Dim

from tests.contracts.primitive_cases import CASES
from tests.framework.compiler.captured import captured, weighted
from tests.framework.compiler.graphs import F64, loop_graph, op, recursion_graph


def assert_round_trip(graph):
    table = []
    text = to_text(graph, table)
    again = parse(text, table)
    assert equal(graph, again)
    assert to_text(again, list(table)) == text
    return text


def test_text_is_what_a_person_can_read():
    g = Graph("line")
    x = g.add_parameter(Spec((2, Dim("n")), np.dtype(np.float64)), "x")
    y = op(g, "multiply", x, 2.5)
    y.where = Where("head", "model.py", 12)
    g.output = op(g, "sum", y, axes=(1,), keepdims=False)
    assert to_text(g) == (
        "graph @line(%x: float64[2, n]) -> float64[2] {\n"
        "  %2: float64[2, n] = multiply(%x, 2.5)  # head @ model.py:12\n"
        "  %3: float64[2] = sum(%2) {axes=(1,), keepdims=False}\n"
        "  return %3\n"
        "}\n"
    )
    assert_round_trip(g)


def test_places_in_the_source_are_read_back():
    for where in (Where("head"), Where("", "a b.py", 3), Where("net.0", "C:\\x.py", 7), Where()):
        g = Graph("g")
        g.output = op(g, "negative", g.add_parameter(F64, "x"))
        g.output.where = where
        assert parse(to_text(g)).output.where == where


@pytest.mark.parametrize(
    ("older", "now", "made"),
    [
        ("ops.pool.PoolWindow", "ops.pool_window.PoolWindow", PoolWindow((2,), (2,), ((0, 0),), (1,))),
        ("ops.conv.Window", "ops.conv_primitives.Window", ConvolutionWindow((2,), ((0, 0),), (1,), 1)),
    ],
)
def test_values_are_found_under_the_names_of_older_files(older, now, made):
    g = Graph("g")
    g.output = op(g, "negative", g.add_parameter(F64, "x"))
    g.output.attributes = {"window": made}
    text = to_text(g)
    assert now in text
    assert parse(text.replace(now, older)).output.attributes["window"] == made


def test_loops_recursion_and_their_gradients_are_read_back():
    loop = loop_graph(lambda g, i, x: op(g, "sin", x), F64)
    for graph in (loop, recursion_graph(), grad_graph(loop, [1]), grad_graph(recursion_graph(), [1])):
        assert_round_trip(graph)
    assert "borrows %x" in to_text(loop)


_WITHOUT_SHAPE = {"nonzero", "unique"}


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) & set(CASES) - _WITHOUT_SHAPE))
def test_applications_of_every_primitive_are_read_back(name):
    for case in CASES[name]:
        types = [type_of(x) for x in case.args]
        tensors = [i for i, x in enumerate(case.args) if isinstance(x, np.ndarray | np.generic)]

        def fn(*varied, case=case, tensors=tensors):
            full = list(case.args)
            for i, x in zip(tensors, varied, strict=True):
                full[i] = x
            return PRIMITIVES[name](*full, **case.attributes)

        graph = captured(fn, [types[i] for i in tensors])
        assert_round_trip(graph)
        if PRIMITIVES[name].is_differentiable and name != "batch_norm":
            scalar = captured(lambda *xs, fn=fn: weighted(fn(*xs), 0), [types[i] for i in tensors])
            wrt = [place for place, i in enumerate(tensors) if is_inexact(types[i].dtype)]
            assert_round_trip(grad_graph(scalar, wrt))


_VALUES = [
    0.1, -3, True, None, "it's # \"quoted\"\n", float("nan"), -float("inf"), 1 - 2j, (1, (2.0,), ()), Ellipsis, Key(3),
    np.dtype(np.float32), Dim("n") * 3 // 2, 1.0 / Dim("n"), -2.5e-7 / (Dim("n") // 2), (Dim("n") + 1) / Dim("m"),
    np.array([0.1, np.nan, -np.inf], np.float32), np.array(7, np.uint64), np.array([[True], [False]]),
    np.array([1.5, 0.1], bfloat16), np.array([1e300 - 0.1j, np.inf]), np.zeros((0, 3)), np.arange(100.0).reshape(4, 25),
]  # fmt: skip


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: str(value)[:20])
def test_constants_are_read_back_exactly(value):
    g = Graph("g")
    constant = ConstantNode(Tensor(value) if isinstance(value, np.ndarray) else value)
    g.output = op(g, "make_tuple", constant)
    assert_round_trip(g)


def test_weights_and_objects_stand_in_the_table():
    def hook(arrays):
        return arrays

    weight = Parameter(np.ones(3), "a.weight")
    g = Graph("g")
    w = g.add_parameter(type_of(weight), "a.weight", weight)
    g.output = op(g, "show", w, hook=hook)
    assert "= weight $0" in assert_round_trip(g)
    with pytest.raises(ParseError, match="print it with a table"):
        parse(to_text(g))


def test_names_that_clash_or_cannot_be_read_are_kept_aside():
    g = Graph("two words")
    first, second, third = (g.add_parameter(F64, name) for name in ("x", "x", "7"))
    g.output = op(g, "add", op(g, "add", first, second), third)
    again = parse(assert_round_trip(g))
    assert [p.name for p in again.parameters] == ["x", "x", "7"]
    assert again.name == "two words"


def test_graphs_that_differ_are_not_equal():
    def variant(name="sin", number=1.0, swap=False, extra=False):
        g = Graph("g")
        x, y = g.add_parameter(F64), g.add_parameter(F64)
        g.output = op(g, "subtract", *(y, x) if swap else (x, y))
        g.output = op(g, name, op(g, "multiply", g.output, number))
        if extra:
            g.add_parameter(F64)
        return g

    assert equal(variant(), variant())
    others = [variant("cos"), variant(number=2.0), variant(number=1), variant(swap=True), variant(extra=True)]
    assert not any(equal(variant(), other) for other in others)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends inside a graph, or has none"),
        ("graph @g() -> float64[] {\n  return 1.0", "ends inside"),
        ("graph @g() -> float64[] {\n}", "line 2: a graph needs a line 'return'"),
        ("graph @g() -> float99[] {\n  return 1.0\n}", "line 1: .*float99"),
        ("graph @g(%x: float64[2}) -> float64[] {\n  return %x\n}", "line 1: "),
        ("graph @g() -> float64[] {\n  return %x\n}", "line 2: nothing is called %x"),
        ("graph @g() -> float64[] {\n  %1: float64[] = sine(1.0)\n  return %1\n}", "line 2: .*'sine'"),
        ("graph @g() -> float64[] {\n  %1: float64[] = @f(1.0)\n  return %1\n}", "there is no graph @f"),
        ("graph @g() -> float64[] {\n  return $0\n}", "not in the table of 0 values"),
        ("graph @g() -> float64[] {\n  return os.system(x='')\n}", "no value of this engine"),
        ("graph @g(%x: int64[], %x: int64[]) -> int64[] {\n  return %x\n}", "%x is used twice"),
        ("graph @g() -> float64[2] {\n  return float64[2](1.0)\n}", "1 elements do not make a tensor of shape"),
        ("graph @g() -> float64[] {\n  return 1.0 2.0\n}", "did not expect '2.0'"),
        ("graph @g() -> float64[] {\n  return ?\n}", "cannot read '[?]'"),
    ],
)
def test_what_is_no_graph_is_a_clear_error(text, words):
    with pytest.raises(ParseError, match=words):
        parse(text)


def test_a_chain_of_many_nodes_is_printed_and_read():
    g = Graph("long")
    x = g.add_parameter(F64, "x")
    node = x
    for _ in range(5000):
        node = Apply(g, [ConstantNode(PRIMITIVES["negative"]), node], F64)
    g.output = node
    assert_round_trip(g)


def test_damaged_text_is_read_or_refused_and_nothing_else():
    g = Graph("g")
    x = g.add_parameter(Spec((Dim("n"), 3), np.dtype(np.float32)), "x")
    part = op(g, "getitem", x, index=(Slice(0, 1, None), Ellipsis))
    scaled = op(g, "multiply", part, 1.0 / Dim("n"))
    g.output = op(g, "make_tuple", scaled, "it's", None, float("nan"), (1, (2.5,)), Key(1), Tensor(np.ones(2)))
    texts = [to_text(g), to_text(grad_graph(loop_graph(lambda g, i, x: op(g, "sin", x), F64), [1]))]
    rng = random.Random(0)
    refused = 0
    for _ in range(10_000 if os.environ.get("MINDSCOPE_TEST_ALL") else 600):
        text = list(rng.choice(texts))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 2)] = rng.choice("%@$(){}[]<>,:=-+./'\"# \nabcx019_!*")
        try:
            verify(parse("".join(text)))
        except (ParseError, VerifyError):
            refused += 1
    assert refused > 300
