"""Nodes of a graph: parameters, constants, applications.

A node belongs to the graph in which it is computed (a constant to none) and knows its type and where it came from. A
node may use nodes of an enclosing graph: those are the free variables of its own graph, which is then a closure.
"""

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .types import Abstract, type_of

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Apply", "Constant", "Node", "Parameter", "Where"]

_serial = count()


@dataclass(frozen=True, slots=True)
class Where:
    """Where a node came from.

    Attributes:
        site: Dotted name of the cell that was running, "" outside of cells.
        file: Source file, "" if unknown.
        line: Line in it, 0 if unknown.
    """

    site: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else ""
        return " ".join(part for part in (self.site, place) if part)


NOWHERE = Where()


class Node:
    """What parameters, constants and applications share; nodes are compared by identity.

    Attributes:
        graph: The graph that computes it; None for a constant.
        type: What is known of its value.
        where: Its place in the source.
        serial: Numbers nodes in the order they were made; only for printing and for stable orders.
    """

    __slots__ = ("graph", "serial", "type", "where")

    def __init__(self, graph: "Graph | None", type: Abstract, where: Where = NOWHERE) -> None:
        self.graph = graph
        self.type = type
        self.where = where
        self.serial = next(_serial)


class Parameter(Node):
    """An argument of its graph.

    Attributes:
        name: For the reader.
        weight: The trained tensor that is read here, for a weight of the outermost graph; else None.
    """

    __slots__ = ("name", "weight")

    def __init__(
        self, graph: "Graph", type: Abstract, name: str = "", weight: Tensor | None = None, where: Where = NOWHERE
    ) -> None:
        super().__init__(graph, type, where)
        self.name = name
        self.weight = weight

    def __repr__(self) -> str:
        return f"Parameter({self.name or self.serial}: {self.type})"


class Constant(Node):
    """A value known when the graph was made: a number, a tensor, a primitive, a graph, a key, None.

    The type of a graph that is complete is the graph's own; the one given serves while it is being built.
    """

    __slots__ = ("_declared", "value")

    def __init__(self, value: Any, type: Abstract | None = None) -> None:
        self.value = value
        super().__init__(None, type_of(value) if type is None else type)

    @property
    def type(self) -> Abstract:
        """What is known of the value."""
        if getattr(self.value, "output", None) is not None and hasattr(self.value, "parameters"):
            own: Abstract = self.value.type
            return own
        return self._declared

    @type.setter
    def type(self, type: Abstract) -> None:
        self._declared = type

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


class Apply(Node):
    """A function applied to arguments.

    Attributes:
        inputs: The function, then its arguments. The function is a constant (a primitive or a graph) or a node that
            gives a closure.
        attributes: Keyword attributes for a primitive: static, hashable values.
    """

    __slots__ = ("attributes", "inputs")

    def __init__(
        self,
        graph: "Graph",
        inputs: list[Node],
        type: Abstract,
        attributes: dict[str, Any] | None = None,
        where: Where = NOWHERE,
    ) -> None:
        super().__init__(graph, type, where)
        self.inputs = inputs
        self.attributes = attributes or {}

    @property
    def function(self) -> Node:
        """What is applied."""
        return self.inputs[0]

    @property
    def arguments(self) -> list[Node]:
        """What it is applied to."""
        return self.inputs[1:]

    def applies(self, name: str) -> bool:
        """Whether this applies the primitive of that name."""
        function = self.inputs[0]
        return isinstance(function, Constant) and getattr(function.value, "name", None) == name

    def __repr__(self) -> str:
        function = self.inputs[0]
        name = getattr(function.value, "name", function.value) if isinstance(function, Constant) else function
        return f"Apply({name}, {len(self.inputs) - 1} arguments: {self.type})"
