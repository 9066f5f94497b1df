"""Passes over the structure: drop marks, inline calls, fold constants, compute equal applications once.

The graph is evaluated with nodes in the place of values. A function is then a graph together with what its free
variables stand for; applying it evaluates its body in the graph that applies it. What cannot be known now is left:
a choice by a condition that is a tensor, and recursion. A function that is left is made a graph again, of its own.
"""

import numpy as np

from ...errors import EngineError
from ...ir import Apply, ConstantNode, FunctionType, Graph, Node
from ...ir.control_ops import Control, make_tuple
from ...ir.visit import Scopes
from ...primitive import Primitive
from ...specs import Spec
from ...tensor import Tensor, wrap
from ..rewrite import rebuild

__all__ = ["drop_marks", "fold_constants", "inline", "share_common"]


def drop_marks(graph: Graph) -> Graph:
    """Replace `mark(x)` by `x`, and likewise the marks of gradients."""
    return rebuild(graph, _unmarked)


def _unmarked(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    return inputs[1] if node.applies("mark") or node.applies("mark_gradient") else None


def inline(graph: Graph) -> Graph:
    """Inline every call but those of recursive graphs and of graphs that a `switch` chooses."""
    return _Inliner(graph).run()


class _Function:
    """A graph and what its free variables stand for."""

    __slots__ = ("graph", "values")

    def __init__(self, graph: Graph, values: "dict[Node, _Value]") -> None:
        self.graph, self.values = graph, values


class _Tuple:
    """The parts of a tuple that is known."""

    __slots__ = ("parts",)

    def __init__(self, parts: "list[_Value]") -> None:
        self.parts = parts


_Value = Node | _Function | _Tuple


class _Inliner:
    """One run of the pass."""

    def __init__(self, graph: Graph) -> None:
        self._root = graph
        self._scopes = Scopes(graph)
        self._recursive = _recursive_graphs(self._scopes)
        self._made: dict[object, Graph] = {}

    def run(self) -> Graph:
        """Return the new graph."""
        return self._graph(_Function(self._root, {}))

    def _graph(self, function: _Function) -> Graph:
        """Return the function as a graph again."""
        free = [function.values[node] for node in self._scopes.free[function.graph]]
        key = (function.graph, tuple(self._identity(value) for value in free))
        if key in self._made:
            return self._made[key]
        new = self._made[key] = Graph(function.graph.name)
        values = dict(function.values)
        for parameter in function.graph.parameters:
            values[parameter] = new.add_parameter(parameter.type, parameter.name, parameter.weight)
        new.output = self._node(self._body(function.graph, values, new), new)
        return new

    def _identity(self, value: _Value) -> object:
        """Return what tells values apart: a node itself, a function by its graph and free variables."""
        if isinstance(value, _Function):
            return (value.graph, tuple(self._identity(value.values[node]) for node in self._scopes.free[value.graph]))
        if isinstance(value, _Tuple):
            return tuple(self._identity(part) for part in value.parts)
        return value

    def _body(self, graph: Graph, values: dict[Node, _Value], home: Graph) -> _Value:
        """Return what the graph returns; its applications are added to `home`."""
        for node in self._scopes.order(graph):
            values[node] = self._apply(node, [self._lookup(x, values) for x in node.inputs], home)
        return self._lookup(graph.result, values)

    def _lookup(self, node: Node, values: dict[Node, _Value]) -> _Value:
        if node in values:
            return values[node]
        if isinstance(node, ConstantNode):
            return _Function(node.value, values) if isinstance(node.value, Graph) else node
        raise TypeError(f"{node!r} is used where it has no value; the graph that computes it does not enclose its user")

    def _apply(self, node: Apply, inputs: list[_Value], home: Graph) -> _Value:
        function, arguments = inputs[0], inputs[1:]
        if isinstance(function, _Function) and function.graph not in self._recursive:
            values = dict(function.values)
            values.update(zip(function.graph.parameters, arguments, strict=True))
            return self._body(function.graph, values, home)
        if node.applies("make_tuple"):
            return _Tuple(arguments)
        if node.applies("tuple_getitem") and isinstance(arguments[0], _Tuple):
            part: _Value = arguments[0].parts[node.attributes["index"]]
            return part
        if node.applies("switch") and isinstance(arguments[0], ConstantNode):
            return arguments[1] if bool(_plain(arguments[0].value)) else arguments[2]
        if node.applies("depend") and not isinstance(arguments[0], Node):
            return self._depend(node, arguments, home)
        made = [self._node(x, home) for x in inputs]
        return Apply(home, made, node.type, node.attributes, node.where)

    def _depend(self, node: Apply, arguments: list[_Value], home: Graph) -> _Value:
        """`depend` of a tuple is the tuple of its parts after the effects; a function has none of its own."""
        value = arguments[0]
        if isinstance(value, _Tuple):
            return _Tuple([self._depend(node, [part, *arguments[1:]], home) for part in value.parts])
        if isinstance(value, _Function) or isinstance(value.type, FunctionType):
            return value
        made = [node.inputs[0], *(self._node(x, home) for x in (value, *arguments[1:]))]
        return Apply(home, made, value.type, node.attributes, node.where)

    def _node(self, value: _Value, home: Graph) -> Node:
        """Return the value as a node that `home` can use."""
        if isinstance(value, _Function):
            graph = self._graph(value)
            return ConstantNode(graph, graph.type)
        if isinstance(value, _Tuple):
            return home.apply(make_tuple, *(self._node(part, home) for part in value.parts))
        return value


def _plain(value: object) -> object:  # of a constant condition: a bool, an array, a tensor
    return getattr(value, "_data", value)


def _recursive_graphs(scopes: Scopes) -> set[Graph]:
    """Return the graphs that reach themselves through what they use."""
    found = set()
    for start in scopes.graphs:
        seen: set[Graph] = set()
        stack = scopes.holders(start)
        while stack:
            holder = stack.pop()
            if holder not in seen:
                seen.add(holder)
                stack.extend(scopes.holders(holder))
        if start in seen:
            found.add(start)
    return found


# A folded value is stored in the compiled function, so a larger one is only kept where it costs no more than
# what it is made of. Our choice.
_LARGEST_BYTES = 1 << 16


def fold_constants(graph: Graph) -> Graph:
    """Replace applications of primitives to constants by their (small) values.

    What raises is left for the run, where the error has its place; primitives that take a random key are left too.
    """
    return rebuild(graph, _folded)


def _folded(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    function = inputs[0]
    if not isinstance(function, ConstantNode) or not isinstance(function.value, Primitive):
        return None
    if not all(isinstance(x, ConstantNode) for x in inputs) or getattr(function.value, "is_effect", False):
        return None
    values = [_array(x.value) for x in inputs[1:] if isinstance(x, ConstantNode)]
    if any(value is None for value in values) or not _is_small(node, values):
        return None
    try:
        with np.errstate(all="ignore"):
            result = function.value.evaluate(*values, **node.attributes)
    except (EngineError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return None
    if isinstance(result, tuple):
        return None
    return ConstantNode(wrap(np.array(result)), node.type)


def _array(value: object) -> object:  # a number stays one: it is a weak operand
    if isinstance(value, Tensor):
        return value._data
    return value if isinstance(value, np.ndarray | np.generic | bool | int | float | complex) else None


def _is_small(node: Apply, values: list[object]) -> bool:
    if not isinstance(node.type, Spec):
        return False
    taken = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
    made: int = node.type.size * node.type.dtype.itemsize
    return made <= max(_LARGEST_BYTES, taken)


def share_common(graph: Graph) -> Graph:
    """Keep one of the applications of a primitive to the same nodes with equal attributes.

    Effects and calls of graphs are kept apart. An inner graph shares its own applications, not those around it.
    """
    known: dict[object, Node] = {}

    def rule(node: Apply, inputs: list[Node], home: Graph) -> Node | None:
        function = inputs[0]
        if not isinstance(function, ConstantNode) or not is_pure(function.value):
            return None
        key = (id(home), function.value, tuple(map(_identity, inputs[1:])), _frozen(node.attributes))
        try:
            found = known.get(key)
        except TypeError:  # an attribute that cannot be hashed
            return None
        if found is None:
            found = known[key] = Apply(home, inputs, node.type, node.attributes, node.where)
        return found

    return rebuild(graph, rule)


def is_pure(function: object) -> bool:
    """Return whether applying it twice is the same as once: a primitive, or a control operation without effect."""
    if isinstance(function, Control):
        return not function.is_effect
    return isinstance(function, Primitive) and not getattr(function, "is_effect", False)


def _identity(node: Node) -> object:
    if isinstance(node, ConstantNode) and isinstance(node.value, bool | int | float | complex | str | None):
        return (type(node.value), repr(node.value))  # 0.0 and -0.0 are equal and not the same
    return node


def _frozen(attributes: dict[str, object]) -> object:
    return tuple((name, repr(attributes[name]), attributes[name]) for name in sorted(attributes))
