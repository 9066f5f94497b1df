"""The reference evaluator of graphs, plain and slow: one node after the other, on arrays; backends answer to it.

Every graph becomes a list of steps over numbered registers. Calls live on a stack of frames of our own, so neither
loops (which are recursive graphs) nor deep recursion meet Python's limit; a call whose result is the result of its
graph takes over the frame, so a loop runs in constant space.

A weight's parameter is the value that the weight had when the run began: what `assign` writes becomes visible to other
runs when this one ends, and not at all if it fails. Inside the run the new value is the result of `assign`.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..context import quiet
from ..errors import EngineError
from ..ir import Apply, ConstantNode, Graph, Node
from ..ir.control_ops import Control, assign
from ..ir.visit import Scopes
from ..primitive import Primitive
from ..specs import evaluation_error
from ..tensor import Array, Tensor

__all__ = [
    "WRITES",
    "Closure",
    "EvaluationStep",
    "Evaluator",
    "GraphCode",
    "Registers",
    "Translator",
    "Value",
    "complete",
    "evaluate",
    "owner_of",
    "plain",
]

# What flows through a graph: arrays, numbers, keys, closures, tuples of these.
Value: TypeAlias = object


Registers: TypeAlias = list[object]


class EvaluationStep(NamedTuple):
    """One node.

    Attributes:
        compute: From the list of its inputs to its result; None for a call of what the first input is.
        out: The register for the result.
        inputs: Registers.
        node: Where it came from.
        last: Registers that nobody reads after this step.
    """

    compute: Callable[[list[object]], object] | None
    out: int
    inputs: tuple[int, ...]
    node: Node
    last: tuple[int, ...]


class GraphCode:
    """A graph as steps; made when it is first called."""

    __slots__ = ("graph", "output", "scopes", "steps", "template", "translator")

    def __init__(self, graph: Graph, translator: "Translator") -> None:
        self.graph, self.translator = graph, translator
        self.steps: list[EvaluationStep] = []
        self.template: Registers | None = None
        self.output = 0

    def registers(self, borrowed: tuple[Value, ...], arguments: Sequence[Value]) -> Registers:
        """Return the registers at the start of a call."""
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

    def __init__(self, code: GraphCode, borrowed: tuple[Value, ...] = ()) -> None:
        self.code, self.borrowed = code, borrowed

    def __call__(self, *arguments: Value) -> Value:
        """Return what the graph returns for these values."""
        return complete(self, list(arguments))

    def __repr__(self) -> str:
        return f"Closure({self.code.graph.name})"


def plain(value: Value) -> Value:
    """Return a constant as evaluation sees it: arrays for tensors."""
    if isinstance(value, Tensor):
        return value._data
    return tuple(plain(part) for part in value) if isinstance(value, tuple | list) else value


#: What the run that is going on has assigned: arrays of weights and their new values.
WRITES: ContextVar[dict[int, tuple[Array, Array]]] = ContextVar("writes")


def complete(closure: "Closure", arguments: Sequence[Value]) -> Value:
    """Return the result; what was assigned is written when all went well."""
    token = WRITES.set({})
    try:
        with quiet():
            result = _loop(closure.code, closure.code.registers(closure.borrowed, arguments))
            for target, value in WRITES.get().values():
                target[...] = value
    finally:
        WRITES.reset(token)
    return result


def _loop(code: GraphCode, registers: Registers) -> Value:
    waiting: list[tuple[GraphCode, Registers, int, int]] = []
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
    """Return the array that a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Translator:
    """From the graphs of one program to code."""

    def __init__(self, root: Graph) -> None:
        self.scopes = Scopes(root)
        self.constants: dict[int, Array] = {}
        self._codes: dict[Graph, GraphCode] = {}

    def code_of(self, graph: Graph) -> GraphCode:
        """Return the code of a graph, perhaps not translated yet."""
        if graph not in self._codes:
            self._codes[graph] = GraphCode(graph, self)
        return self._codes[graph]

    def translate(self, code: GraphCode) -> None:
        """Give the code its steps."""
        graph = code.graph
        given: list[Node] = [*self.scopes.free[graph], *graph.parameters]
        allocation = _Allocation(self, graph, {node: place for place, node in enumerate(given)})
        for node in self.scopes.order(graph):
            allocation.add(node)
        code.output = allocation.place(graph.result, graph.result)
        code.steps = allocation.finished(code.output)
        code.template = allocation.template
        for value in code.template:
            if isinstance(value, np.ndarray):
                self.constants[id(owner_of(value))] = owner_of(value)


class _Allocation:
    """The registers and steps of one graph while it is translated: first what is given, then constants and results."""

    def __init__(self, translator: Translator, graph: Graph, places: dict[Node, int]) -> None:
        self._translator, self._graph, self._places = translator, graph, places
        self._given = len(places)
        self._closures: dict[Graph, int] = {}
        self._steps: list[EvaluationStep] = []
        self.template: Registers = []

    def place(self, node: Node, user: Node) -> int:
        """Return the register of a node's value; constants are put into the template, closures made by a step."""
        if node in self._places:
            return self._places[node]
        if isinstance(node, ConstantNode):
            if isinstance(node.value, Graph):
                return self._closure(node.value, user)
            self._places[node] = self._new(plain(node.value))
            return self._places[node]
        raise EngineError(f"{node!r}, used by {user!r} in graph '{self._graph.name}', is out of scope there")

    def _new(self, value: Value) -> int:
        self.template.append(value)
        return self._given + len(self.template) - 1

    def _closure(self, inner: Graph, user: Node) -> int:
        if inner not in self._closures:
            code = self._translator.code_of(inner)
            free = self._translator.scopes.free[inner]
            if free:
                borrowed = tuple(self.place(node, user) for node in free)
                self._closures[inner] = self._new(None)
                self._steps.append(EvaluationStep(_closing(code), self._closures[inner], borrowed, user, ()))
            else:
                self._closures[inner] = self._new(Closure(code))
        return self._closures[inner]

    def add(self, node: Apply) -> None:
        """Append the step for a node, after the steps for the closures it uses."""
        function = node.function.value if isinstance(node.function, ConstantNode) else None
        compute = _computing(function, node)
        inputs = tuple(self.place(x, node) for x in (node.inputs if compute is None else node.arguments))
        self._places[node] = self._new(None)
        self._steps.append(EvaluationStep(compute, self._places[node], inputs, node, ()))

    def finished(self, output: int) -> list[EvaluationStep]:
        """Return the steps, each knowing which results are not needed after it."""
        constants = {self._given + i for i, value in enumerate(self.template) if value is not None}
        read = {output, *constants}
        for number in range(len(self._steps) - 1, -1, -1):
            step = self._steps[number]
            last = tuple(register for register in dict.fromkeys(step.inputs) if register not in read)
            read.update(step.inputs)
            self._steps[number] = step._replace(last=last)
        return self._steps


def _closing(code: GraphCode) -> Callable[[list[Value]], Value]:
    return lambda values: Closure(code, tuple(values))


def _computing(function: object, node: Apply) -> Callable[[list[Value]], Value] | None:
    """Return what a step does that calls no graph."""
    attributes = node.attributes
    if function is assign:
        return _assigned
    if isinstance(function, Control):
        operate = function.evaluate
        return lambda values: operate(*values, **attributes)
    if not isinstance(function, Primitive):
        return None
    evaluate = function.evaluate
    primitive = function

    def compute(values: list[Value]) -> Value:
        try:
            result = evaluate(*values, **attributes)
        except (ValueError, TypeError, IndexError) as error:
            raise _located(
                evaluation_error(primitive.name, primitive.infer, values, attributes, error), node
            ) from error
        return result if isinstance(result, np.ndarray | tuple) else np.asarray(result)

    return compute


def _assigned(values: list[Any]) -> Array:
    """Return the new value of a weight, which is written when the run has ended."""
    target = values[0]
    new = np.asarray(values[1], dtype=target.dtype)
    WRITES.get()[id(target)] = target, new
    return new


def _located(error: EngineError, node: Node) -> EngineError:
    """Return the error, its message naming the place in the source."""
    where = str(node.where)
    if where:
        error.args = (f"{error.args[0]} ({where})", *error.args[1:])
    return error


class Evaluator:
    """A graph made ready to be evaluated many times; the graph must not be changed afterwards."""

    def __init__(self, graph: Graph) -> None:
        self._translator = Translator(graph)
        self._closure = Closure(self._translator.code_of(graph))

    def __call__(self, arguments: Sequence[Value]) -> Value:
        """Return what the graph returns for arrays, one for each of its parameters (those of weights included).

        Results that are constants of the graph are copies: nobody can change the graph through them.
        """
        return self._apart(complete(self._closure, arguments))

    def _apart(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple([self._apart(part) for part in value])
        if isinstance(value, np.ndarray) and id(owner_of(value)) in self._translator.constants:
            return value.copy()
        return value


def evaluate(graph: Graph, arguments: Sequence[Value]) -> Value:
    """Return what the graph returns for arrays, one for each of its parameters (those of weights included).

    Tuples come back as tuples, functions as `Closure`.
    """
    return Evaluator(graph)(arguments)
