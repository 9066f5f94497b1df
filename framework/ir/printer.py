"""Graphs as text that a person can read and `parser` reads back: one line a node.

    graph @line(%x: float64[2, n], %w: float64[] = weight $0) -> float64[2, n] {
      %0: float64[2, n] = multiply(%x, %w)  # head @ model.py:12
      %1: float64[2, n] = @twice(%0)
      %2: float64[2] = sum(%1) {axes=(1,), keepdims=False}
      return %1
    }

A bare word is a primitive or a control operation, `@name` a graph, `%name` a value. Names are unique in the whole text:
an inner graph that uses a value of an outer one is a closure. What text cannot hold (large tensors, hooks, the weights
themselves) is written as `$number` and stands in a table beside it.
"""

import numpy as np

from ..random import Key
from ..specs import Spec
from ..symbolic import Dim, Quotient
from ..tensor import Array, Tensor
from .ir_graph import Apply, ConstantNode, Graph, Node, ParameterNode
from .ir_types import Abstract, FunctionType, TupleType, type_of
from .visit import Scopes

__all__ = ["STORED_NAMES", "to_text", "type_text"]

#: Values by where they are now, and the names that files have for them: files keep a name when its class moves.
STORED_NAMES = {
    "ops.convolution_ops.ConvolutionWindow": "ops.conv_primitives.Window",
    "ops.indexing_ops.Slice": "ops.indexing.Slice",
    "ops.ordering.Unique": "ops.selection.Unique",
    "ops.sliding_window.PoolWindow": "ops.pool_window.PoolWindow",
}
#: Tensors of more elements go into the table.
_INLINE = 16


def to_text(graph: Graph, table: list[object] | None = None) -> str:
    """Return the graph and all that it uses, outermost first.

    Args:
        graph: Complete.
        table: Takes what text cannot hold; pass it to `parse`. Without one such values are only described.
    """
    printer = _Printer(table)
    scopes = Scopes(graph)
    printer.name(scopes)
    return "\n\n".join(printer.graph(inner, scopes) for inner in scopes.graphs) + "\n"


def type_text(type: Abstract) -> str:
    """Return a type as it is written: `float32[2, 3]`, `(int64[], float32[n])`, `fn(bool[]) -> float32[2]`, `!Key`."""
    if isinstance(type, Spec):
        lengths = ", ".join(str(length) for length in type.shape)
        return f"{'weak ' if type.weak else ''}{type.dtype}[{lengths}]"
    if isinstance(type, TupleType):
        parts = [type_text(part) for part in type.elements]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(type, FunctionType):
        return f"fn({', '.join(type_text(part) for part in type.arguments)}) -> {type_text(type.result)}"
    return f"!{type.kind}"


class _Printer:
    """Names of graphs and nodes, and the table."""

    def __init__(self, table: list[object] | None) -> None:
        self._table = table
        self._graphs: dict[Graph, str] = {}
        self._nodes: dict[Node, str] = {}
        self._used: set[str] = set()

    def name(self, scopes: Scopes) -> None:
        """Give every graph and node a name: its own where it has one that is free, else a number."""
        for graph in scopes.graphs:
            self._graphs[graph] = self._free("@", graph.name or "graph")
            for parameter in graph.parameters:
                self._nodes[parameter] = self._free("%", parameter.name)
        for graph in scopes.graphs:
            for node in scopes.order(graph):
                self._nodes[node] = self._free("%", "")

    def _free(self, mark: str, wanted: str) -> str:
        plain = "".join(c if c.isalnum() or c in "._" else "_" for c in wanted)
        name, number = mark + plain, 0
        if not plain or plain.isdigit():
            name, number = f"{mark}{len(self._used)}", len(self._used)
        while name in self._used:
            number += 1
            name = f"{mark}{plain}_{number}" if plain else f"{mark}{number}"
        self._used.add(name)
        return name

    def graph(self, graph: Graph, scopes: Scopes) -> str:
        """Return the text of one graph."""
        parameters = ", ".join(self._parameter(parameter) for parameter in graph.parameters)
        title = f" {graph.name!r}" if self._graphs[graph] != f"@{graph.name}" else ""
        borrowed = ", ".join(sorted(self._nodes[node] for node in scopes.free[graph]))
        note = f"  # borrows {borrowed}" if borrowed else ""
        head = f"graph {self._graphs[graph]}{title}({parameters}) -> {type_text(graph.result.type)} {{{note}"
        lines = [self._line(node) for node in scopes.order(graph)]
        return "\n  ".join([head, *lines, f"return {self._value(graph.result)}"]) + "\n}"

    def _parameter(self, parameter: ParameterNode) -> str:
        text = f"{self._nodes[parameter]}: {type_text(parameter.type)}"
        if self._nodes[parameter] != f"%{parameter.name}":
            text += f" named {parameter.name!r}"
        return text if parameter.weight is None else f"{text} = weight {self._aside(parameter.weight, 'weight')}"

    def _line(self, node: Apply) -> str:
        arguments = ", ".join(self._value(x) for x in node.arguments)
        pairs = ", ".join(f"{key}={self._plain(value)}" for key, value in node.attributes.items())
        attributes = f" {{{pairs}}}" if pairs else ""
        place = f"{node.where.file}:{node.where.line}" if node.where.file else ""
        where = " @ ".join(part for part in (node.where.site, place) if part) if place else node.where.site
        note = f"  # {'@ ' if place and not node.where.site else ''}{where}" if where else ""
        head = f"{self._nodes[node]}: {type_text(node.type)} = {self._value(node.function)}"
        return f"{head}({arguments}){attributes}{note}"

    def _value(self, node: Node) -> str:
        """Return a node as it is used."""
        if not isinstance(node, ConstantNode):
            return self._nodes[node]
        if isinstance(node.value, Graph):
            return self._graphs[node.value]
        name = getattr(node.value, "name", None)
        if type(node.value).__name__ in ("Primitive", "Control") and isinstance(name, str):
            return name
        text = self._plain(node.value)
        return text if node.type == type_of(node.value) else f"{text}: {type_text(node.type)}"

    def _plain(self, value: object) -> str:
        """Return a constant or an attribute."""
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return self._tensor(np.asarray(value._data if isinstance(value, Tensor) else value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            pairs = ", ".join(f"{key}={self._plain(part)}" for key, part in fields)
            return f"{_path(type(value))}({pairs})"
        if isinstance(value, tuple | list):
            parts = [self._plain(part) for part in value]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        return self._word(value)

    def _word(self, value: object) -> str:
        """Return a value without parts."""
        if value is None or value is Ellipsis or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float | complex):
            finite = isinstance(value, float) and np.isfinite(value)
            return repr(value) if finite else f"{type(value).__name__}({str(value)!r})"
        if isinstance(value, Dim | Quotient):
            return f"<{value}>"
        if isinstance(value, np.dtype):
            return f"dtype({value})"
        if isinstance(value, Spec | TupleType | FunctionType):
            return f"type({type_text(value)})"
        return f"key({value.bits})" if type(value) is Key else self._aside(value, type(value).__name__)

    def _tensor(self, array: Array) -> str:
        head = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        if array.size > _INLINE:
            return self._aside(array, head)
        return f"{head}({', '.join(_element(x) for x in array.reshape(-1))})"

    def _aside(self, value: object, description: str) -> str:
        if self._table is None:
            return f"<...{description}>"
        for number, other in enumerate(self._table):
            if other is value:
                return f"${number}"
        self._table.append(value)
        return f"${len(self._table) - 1}"


def _element(x: np.generic) -> str:
    """Return one element of a tensor, exactly."""
    if isinstance(x, np.bool_ | np.integer):
        return str(x)
    if isinstance(x, np.complexfloating):
        return repr(complex(x)).strip("()")
    short = str(x)
    return short if type(x)(float(short)) == x else repr(float(x))


def _path(kind: type) -> str:
    """Return the name of a named tuple, with the module of the engine that has it."""
    path = f"{kind.__module__.partition('framework.')[2] or kind.__module__}.{kind.__name__}"
    return STORED_NAMES.get(path, path)
