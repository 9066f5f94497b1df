"""Graphs and their nodes: a graph is a function of parameters with one output.

A node belongs to the graph in which it is computed (a constant to none) and knows its type and where it came from. A
node may use nodes of an enclosing graph: those are the free variables of its own graph, which is then a closure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ..primitive import Primitive
from ..tensor import Tensor
from .control_ops import Control
from .ir_types import UNKNOWN, Abstract, FunctionType, TupleType, type_of

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


class ParameterNode(Node):
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


class ConstantNode(Node):
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
        attributes: dict[str, Any] | None = None,  # of the types that the primitive says
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
        """Return whether this applies the primitive of that name."""
        function = self.inputs[0]
        return isinstance(function, ConstantNode) and getattr(function.value, "name", None) == name

    def __repr__(self) -> str:
        function = self.inputs[0]
        name = getattr(function.value, "name", function.value) if isinstance(function, ConstantNode) else function
        return f"Apply({name}, {len(self.inputs) - 1} arguments: {self.type})"


class Graph:
    """A function: parameters in, one output (a tuple for several).

    The parameters that carry a `weight` come last: they are filled in by the engine, not by the caller.

    Attributes:
        name: For the reader.
        parameters: Its arguments.
        output: The node that it returns; None while it is being built.
    """

    __slots__ = ("name", "output", "parameters")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: list[ParameterNode] = []
        self.output: Node | None = None

    def add_parameter(self, type: Abstract, name: str = "", weight: Tensor | None = None) -> ParameterNode:
        """Return a new last parameter."""
        parameter = ParameterNode(self, type, name, weight)
        self.parameters.append(parameter)
        return parameter

    def apply(
        self, primitive: Primitive | Control, *arguments: Node, where: Where = NOWHERE, **attributes: Any
    ) -> Apply:
        """Return a new application of a primitive or control operation, its type inferred.

        Raises:
            EngineError: The primitive cannot take such arguments.
        """
        inferred = primitive.infer(*(argument.type for argument in arguments), **attributes)
        result = TupleType(inferred) if isinstance(inferred, tuple) else inferred
        return Apply(self, [ConstantNode(primitive), *arguments], result, attributes, where)

    def call(self, function: "Node | Graph", *arguments: Node, where: Where = NOWHERE) -> Apply:
        """Return a new application of a graph, or of a node that gives a closure."""
        if isinstance(function, Graph):
            function = ConstantNode(function, function.type)
        if not isinstance(function.type, FunctionType):
            raise TypeError(f"only functions can be applied, got a node of type {function.type}")
        return Apply(self, [function, *arguments], function.type.result, None, where)

    @property
    def result(self) -> Node:
        """The output of a graph that is complete."""
        if self.output is None:
            raise ValueError(f"graph '{self.name}' has no output yet")
        return self.output

    @property
    def type(self) -> FunctionType:
        """What it takes and what it gives; a graph still without output (a recursion) gives what is not known yet."""
        result = self.output.type if self.output is not None else UNKNOWN
        return FunctionType(tuple(parameter.type for parameter in self.parameters), result)

    @property
    def weights(self) -> list[ParameterNode]:
        """The parameters that the engine fills in."""
        return [parameter for parameter in self.parameters if parameter.weight is not None]

    def arguments(self) -> Sequence[ParameterNode]:
        """Return the parameters that the caller fills in."""
        return [parameter for parameter in self.parameters if parameter.weight is None]

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.parameters)} parameters)"
