"""Random programs of loops, branches and closures: their derivatives are those of dual numbers, first and second order.

The witness runs the same program in Python, on numbers `v + d e` with `e * e = 0`; it knows nothing of graphs.
"""

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.graph_gradient import forward_and_pullback, grad_graph
from mindscope.framework.compiler.infer import infer
from mindscope.framework.ir import ConstantNode, Graph, TupleType, equal
from mindscope.framework.ir.parser import parse
from mindscope.framework.ir.printer import to_text
from mindscope.framework.ir.verify import verify

from tests.framework.compiler.graphs import F64, I64, branch, declared, op

NAMES = ("a", "b", "c")
STATE = TupleType((F64, F64, F64))
EXAMPLES = 400 if os.environ.get("MINDSCOPE_TEST_ALL") else 40


@dataclass(frozen=True)
class Dual:
    """A number and its derivative; both may be dual numbers themselves."""

    v: Any
    d: Any

    def __add__(self, other):
        return Dual(self.v + other.v, self.d + other.d)

    def __mul__(self, other):
        return Dual(self.v * other.v, self.d * other.v + self.v * other.d)


def sine(x, turns=0):
    """`sin(x + turns pi / 2)`: its derivative is one turn further."""
    if isinstance(x, Dual):
        return Dual(sine(x.v, turns), x.d * sine(x.v, turns + 1))
    return [math.sin, math.cos, lambda y: -math.sin(y), lambda y: -math.cos(y)][turns % 4](x)


def plain(x):
    return plain(x.v) if isinstance(x, Dual) else x


def lifted(number, like):
    return Dual(lifted(number, like.v), lifted(0.0, like.v)) if isinstance(like, Dual) else number


# Programs are lists of
#     ("set", name, operation, name, name)   ("loop", turns, program)   ("if", name, bound, program, program)

OPERATIONS = ("add", "multiply", "sin", "scale")
_SET = st.tuples(st.just("set"), st.sampled_from(NAMES), st.sampled_from(OPERATIONS), *[st.sampled_from(NAMES)] * 2)
PROGRAMS = st.recursive(
    st.lists(_SET, min_size=1, max_size=3),
    lambda inner: st.lists(
        _SET
        | st.tuples(st.just("loop"), st.integers(0, 3), inner)
        | st.tuples(st.just("if"), st.sampled_from(NAMES), st.floats(-1, 1), inner, inner),
        min_size=1,
        max_size=3,
    ),
    max_leaves=5,
)


def calculated(how, x, y):
    if how == "sin":
        return sine(x)
    return x + y if how == "add" else x * (y if how == "multiply" else lifted(0.7, x))


def applied(graph, how, x, y):
    if how == "sin":
        return op(graph, "sin", x)
    return op(graph, "add", x, y) if how == "add" else op(graph, "multiply", x, y if how == "multiply" else 0.7)


def run(program, state):
    """The state after the program, by Python."""
    for kind, *rest in program:
        if kind == "set":
            name, how, first, second = rest
            state = {**state, name: calculated(how, state[first], state[second])}
        elif kind == "loop":
            for _ in range(rest[0]):
                state = run(rest[1], state)
        else:
            state = run(rest[2] if plain(state[rest[0]]) > rest[1] else rest[3], state)
    return state


def emit(graph, program, state):
    """The same as nodes of a graph: loops as recursive graphs, branches as closures."""
    for kind, *rest in program:
        if kind == "set":
            name, how, first, second = rest
            state = {**state, name: applied(graph, how, state[first], state[second])}
        elif kind == "loop":
            state = _unpacked(graph, _loop(graph, rest[0], rest[1], state))
        else:
            condition = op(graph, "greater", state[rest[0]], rest[1])
            arms = [_arm(part, state) for part in rest[2:]]
            state = _unpacked(graph, branch(graph, condition, *arms, STATE))
    return state


def _arm(program, state):
    graph = Graph("arm")
    graph.output = _packed(graph, emit(graph, program, state))
    return graph


def _loop(graph, turns, program, state):
    header, body, end = Graph("while"), Graph("body"), Graph("end")
    i = header.add_parameter(I64, "i")
    inside = {name: header.add_parameter(F64, name) for name in NAMES}
    after = emit(body, program, inside)
    body.output = body.call(declared(header, STATE), op(body, "add", i, 1), *after.values())
    end.output = _packed(end, inside)
    header.output = branch(header, op(header, "less", i, turns), body, end, STATE)
    return graph.call(declared(header, STATE), ConstantNode(np.array(0)), *state.values())


def _packed(graph, state):
    return op(graph, "make_tuple", *state.values())


def _unpacked(graph, whole):
    return {name: op(graph, "tuple_getitem", whole, index=i) for i, name in enumerate(NAMES)}


def graph_of(program):
    graph = Graph("program")
    state = {name: graph.add_parameter(F64, name) for name in NAMES}
    state = emit(graph, program, state)
    graph.output = op(graph, "add", op(graph, "multiply", state["a"], state["b"]), op(graph, "sin", state["c"]))
    return graph


def expected(program, point, first, second=None):
    """The derivative by one variable, or by two, at a point."""
    state = {}
    for name, value in zip(NAMES, point, strict=True):
        x = Dual(value, float(name == first))
        state[name] = x if second is None else Dual(x, Dual(float(name == second), 0.0))
    end = run(program, state)
    total = end["a"] * end["b"] + sine(end["c"])
    return total.d if second is None else total.d.d


def first_derivative(graph, index):
    both = grad_graph(graph, [index])
    found = Graph("first")
    copies = [found.add_parameter(F64, p.name) for p in both.parameters]
    found.output = op(found, "tuple_getitem", op(found, "tuple_getitem", found.call(both, *copies), index=1), index=0)
    return found


def close(found, wanted):
    np.testing.assert_allclose(float(found), wanted, rtol=1e-9, atol=1e-9)


@settings(max_examples=EXAMPLES, deadline=None)
@given(PROGRAMS, st.tuples(*[st.floats(-1, 1)] * 3))
def test_derivatives_of_random_programs_are_those_of_dual_numbers(program, point):
    graph = verify(graph_of(program))
    arrays = [np.array(x) for x in point]
    both = verify(grad_graph(graph, [0, 1, 2]))
    for name, found in zip(NAMES, evaluate(both, arrays)[1], strict=True):
        close(found, expected(program, point, name))
    bend = verify(grad_graph(first_derivative(graph, 0), [1, 2]))
    for name, found in zip("bc", evaluate(bend, arrays)[1], strict=True):
        close(found, expected(program, point, "a", name))


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(PROGRAMS, st.tuples(*[st.floats(-1, 1)] * 3))
def test_random_programs_survive_text_inference_and_the_cut_between_forward_and_back(program, point):
    graph = graph_of(program)
    both = grad_graph(graph, [0, 1, 2])
    table = []
    assert equal(parse(to_text(both, table), table), both)
    assert equal(infer(both), both)
    arrays = [np.array(x) for x in point]
    forward, back = forward_and_pullback(graph)
    verify(forward)
    verify(back)
    value, *residuals = evaluate(forward, arrays)
    wanted_value, wanted = evaluate(both, arrays)
    assert value == wanted_value
    for x, y in zip(evaluate(back, [*residuals, np.array(1.0)]), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)
