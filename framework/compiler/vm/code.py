"""A graph as code, and how it runs: steps over numbered registers, calls on a stack of frames of our own."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ...context import quiet
from ...errors import EngineError
from ...ir import Graph, Node
from ...tensor import Array, Tensor

if TYPE_CHECKING:
    from .translate import Translator

__all__ = ["WRITES", "Closure", "Code", "Registers", "Step", "Value", "complete", "owner_of", "plain"]


# What flows through a graph: arrays, numbers, keys, closures, tuples of these.
Value: TypeAlias = Any


Registers: TypeAlias = list[Any]


class Step(NamedTuple):
    """One node.

    Attributes:
        compute: From the list of its inputs to its result; None for a call of what the first input is.
        out: The register for the result.
        inputs: Registers.
        node: Where it came from.
        last: Registers that nobody reads after this step.
    """

    compute: Callable[[list[Any]], Any] | None
    out: int
    inputs: tuple[int, ...]
    node: Node
    last: tuple[int, ...]


class Code:
    """A graph as steps; made when it is first called."""

    __slots__ = ("graph", "output", "scopes", "steps", "template", "translator")

    def __init__(self, graph: Graph, translator: "Translator") -> None:
        self.graph, self.translator = graph, translator
        self.steps: list[Step] = []
        self.template: Registers | None = None
        self.output = 0

    def registers(self, borrowed: tuple[Value, ...], arguments: Sequence[Value]) -> Registers:
        """The registers at the start of a call."""
        if self.template is None:
            self.translator.translate(self)
        assert self.template is not None
        if len(arguments) != len(self.graph.parameters):
            names = ", ".join(p.name or f"#{i}" for i, p in enumerate(self.graph.parameters))
            raise EngineError(
                f"graph '{self.graph.name}' expects {len(self.graph.parameters)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        return [*borrowed, *arguments, *self.template]


class Closure:
    """A graph with the values of its free variables; can be called like a function of arrays."""

    __slots__ = ("borrowed", "code")

    def __init__(self, code: Code, borrowed: tuple[Value, ...] = ()) -> None:
        self.code, self.borrowed = code, borrowed

    def __call__(self, *arguments: Value) -> Value:
        """What the graph returns for these values."""
        return complete(self, list(arguments))

    def __repr__(self) -> str:
        return f"Closure({self.code.graph.name})"


def plain(value: Value) -> Value:
    """A constant as evaluation sees it: arrays for tensors."""
    if isinstance(value, Tensor):
        return value._data
    return tuple(plain(part) for part in value) if isinstance(value, tuple | list) else value


#: What the run that is going on has assigned: arrays of weights and their new values.
WRITES: ContextVar[dict[int, tuple[Array, Array]]] = ContextVar("writes")


def complete(closure: "Closure", arguments: Sequence[Value]) -> Value:
    """The result; what was assigned is written when all went well."""
    token = WRITES.set({})
    try:
        with quiet():
            result = _loop(closure.code, closure.code.registers(closure.borrowed, arguments))
            for target, value in WRITES.get().values():
                target[...] = value
    finally:
        WRITES.reset(token)
    return result


def _loop(code: Code, registers: Registers) -> Value:
    waiting: list[tuple[Code, Registers, int, int]] = []
    number = 0
    while True:
        if number == len(code.steps):
            result = registers[code.output]
            if not waiting:
                return result
            code, registers, number, out = waiting.pop()
            registers[out] = result
            continue
        compute, out, inputs, node, last = code.steps[number]
        number += 1
        values = [registers[register] for register in inputs]
        for register in last:
            registers[register] = None
        if compute is not None:
            registers[out] = compute(values)
            continue
        function = values[0]
        if not isinstance(function, Closure):
            raise EngineError(f"only functions can be applied, got {type(function).__name__} ({node.where})")
        if number < len(code.steps) or out != code.output:
            waiting.append((code, registers, number, out))
        code = function.code
        registers, number = code.registers(function.borrowed, values[1:]), 0


def owner_of(array: Array) -> Array:
    """The array that a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
