"""From a graph to its code: every node gets a register, every application a step."""

from collections.abc import Callable

import numpy as np

from ...errors import EngineError
from ...ir import Apply, Constant, Graph, Node
from ...ir.control import Control, assign
from ...ir.visit import Scopes
from ...primitive import Primitive
from ...specs import refusal
from ...tensor import Array
from .code import WRITES, Closure, Code, Registers, Step, Value, owner_of, plain

__all__ = ["Translator"]


class Translator:
    """From the graphs of one program to code."""

    def __init__(self, root: Graph) -> None:
        self.scopes = Scopes(root)
        self.constants: dict[int, Array] = {}
        self._codes: dict[Graph, Code] = {}

    def code_of(self, graph: Graph) -> Code:
        """The code of a graph, perhaps not translated yet."""
        if graph not in self._codes:
            self._codes[graph] = Code(graph, self)
        return self._codes[graph]

    def translate(self, code: Code) -> None:
        """Nothing; the code gets its steps."""
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
        self._steps: list[Step] = []
        self.template: Registers = []

    def place(self, node: Node, user: Node) -> int:
        """The register that holds a node's value; constants are put into the template, closures made by a step."""
        if node in self._places:
            return self._places[node]
        if isinstance(node, Constant):
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
                self._steps.append(Step(_closing(code), self._closures[inner], borrowed, user, ()))
            else:
                self._closures[inner] = self._new(Closure(code))
        return self._closures[inner]

    def add(self, node: Apply) -> None:
        """Nothing; appends the step for a node, after the steps for the closures it uses."""
        function = node.function.value if isinstance(node.function, Constant) else None
        compute = _computing(function, node)
        inputs = tuple(self.place(x, node) for x in (node.inputs if compute is None else node.arguments))
        self._places[node] = self._new(None)
        self._steps.append(Step(compute, self._places[node], inputs, node, ()))

    def finished(self, output: int) -> list[Step]:
        """The steps, each knowing which results are not needed after it."""
        constants = {self._given + i for i, value in enumerate(self.template) if value is not None}
        read = {output, *constants}
        for number in range(len(self._steps) - 1, -1, -1):
            step = self._steps[number]
            last = tuple(register for register in dict.fromkeys(step.inputs) if register not in read)
            read.update(step.inputs)
            self._steps[number] = step._replace(last=last)
        return self._steps


def _closing(code: Code) -> Callable[[list[Value]], Value]:
    return lambda values: Closure(code, tuple(values))


def _computing(function: object, node: Apply) -> Callable[[list[Value]], Value] | None:
    """What a step does that calls no graph."""
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
            raise _located(refusal(primitive, values, attributes, error), node) from error
        return result if isinstance(result, np.ndarray | tuple) else np.asarray(result)

    return compute


def _assigned(values: list[Value]) -> Array:
    """The new value of a weight, which is written when the run has ended."""
    target = values[0]
    new = np.asarray(values[1], dtype=target.dtype)
    WRITES.get()[id(target)] = target, new
    return new


def _located(error: EngineError, node: Node) -> EngineError:
    """The error, its message naming the place in the source."""
    where = str(node.where)
    if where:
        error.args = (f"{error.args[0]} ({where})", *error.args[1:])
    return error
