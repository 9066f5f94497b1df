"""Graphs made by hand, for tests of what runs and transforms graphs."""

import numpy as np
from mindscope.framework import PRIMITIVES
from mindscope.framework.ir import ConstantNode, FunctionType, Graph, TupleType
from mindscope.framework.ir.control_ops import CONTROL
from mindscope.framework.specs import Spec

F64 = Spec((), np.dtype(np.float64))
I64 = Spec((), np.dtype(np.int64))


def op(graph, name, *arguments, **attributes):
    """An application of the primitive or control operation of that name; arguments may be Python values."""
    nodes = [x if hasattr(x, "type") else ConstantNode(x) for x in arguments]
    return graph.apply(CONTROL[name] if name in CONTROL else PRIMITIVES[name], *nodes, **attributes)


def declared(graph, result):
    """The graph as a function value of known result type, also before it has an output."""
    return ConstantNode(graph, FunctionType(tuple(p.type for p in graph.parameters), result))


def branch(graph, condition, true, false, result):
    """`true()` or `false()`, two graphs without parameters."""
    chosen = op(graph, "switch", condition, declared(true, result), declared(false, result))
    return graph.call(chosen)


def loop_graph(step, state, name="loop"):
    """`step` applied n times: a graph of (n, initial state) as a recursive graph with closures for its branches.

    `step(graph, i, state)` adds the nodes of one turn and returns the new state.
    """
    root, header, body, end = (Graph(word) for word in (name, "while", "body", "end"))
    n, initial = root.add_parameter(I64, "n"), root.add_parameter(state, "x")
    i, x = header.add_parameter(I64, "i"), header.add_parameter(state, "x")
    body.output = body.call(declared(header, state), op(body, "add", i, 1), step(body, i, x))
    end.output = x
    header.output = branch(header, op(header, "less", i, n), body, end, state)
    root.output = root.call(declared(header, state), ConstantNode(np.array(0)), initial)
    return root


def recursion_graph(name="deep"):
    """`f(n, x) = x if n == 0 else sin(x) + f(n - 1, x * 0.5)`: recursion that is no loop."""
    f, more, end = Graph(name), Graph("more"), Graph("end")
    n, x = f.add_parameter(I64, "n"), f.add_parameter(F64, "x")
    below = more.call(declared(f, F64), op(more, "subtract", n, 1), op(more, "multiply", x, 0.5))
    more.output = op(more, "add", op(more, "sin", x), below)
    end.output = x
    f.output = branch(f, op(f, "equal", n, 0), end, more, F64)
    return f


def pair(first, second):
    """The type of a tuple of two."""
    return TupleType((first, second))
