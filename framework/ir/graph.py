"""A graph: a function of parameters with one output."""

from collections.abc import Sequence
from typing import Any

from ..primitive import Primitive
from ..tensor import Tensor
from .control import Control
from .node import NOWHERE, Apply, Constant, Node, Parameter, Where
from .types import UNKNOWN, Abstract, FunctionType, TupleType

__all__ = ["Graph"]


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
        self.parameters: list[Parameter] = []
        self.output: Node | None = None

    def add_parameter(self, type: Abstract, name: str = "", weight: Tensor | None = None) -> Parameter:
        """A new last parameter."""
        parameter = Parameter(self, type, name, weight)
        self.parameters.append(parameter)
        return parameter

    def apply(
        self, primitive: Primitive | Control, *arguments: Node, where: Where = NOWHERE, **attributes: Any
    ) -> Apply:
        """A new application of a primitive or control operation, its type inferred.

        Raises:
            EngineError: The primitive cannot take such arguments.
        """
        inferred = primitive.infer(*(argument.type for argument in arguments), **attributes)
        result = TupleType(inferred) if isinstance(inferred, tuple) else inferred
        return Apply(self, [Constant(primitive), *arguments], result, attributes, where)

    def call(self, function: "Node | Graph", *arguments: Node, where: Where = NOWHERE) -> Apply:
        """A new application of a graph, or of a node that gives a closure."""
        if isinstance(function, Graph):
            function = Constant(function, function.type)
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
    def weights(self) -> list[Parameter]:
        """The parameters that the engine fills in."""
        return [parameter for parameter in self.parameters if parameter.weight is not None]

    def arguments(self) -> Sequence[Parameter]:
        """The parameters that the caller fills in."""
        return [parameter for parameter in self.parameters if parameter.weight is None]

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.parameters)} parameters)"
