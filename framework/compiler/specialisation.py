"""One captured graph and what runs it: bound to its weights, guarded, compiled when it is first needed.

arrays of the arguments + keys, taken anew + arrays of the weights, by reference
  -> the compiled graph                                     nothing that goes in requires a gradient
  -> a GraphFunction, one node of the eager tape            something does
  -> tensors, nested as the function nested them; then the actions (steps of optimizers)
"""

from typing import NamedTuple, TypeVar

import numpy as np

from ..ir import Graph, OpaqueType, TupleType
from ..ir.visit import order, reachable
from ..random import Key
from ..specs import Spec
from ..tensor import Array, Tensor, wrap
from .captured_graph import Captured
from .graph_on_tape import GraphFunction, differentiable_outputs
from .guards import GuardSet
from .observers import insert_observers, observer_set
from .pipeline import Executable, compile
from .signature import Leaf, Signature, checker, flatten, unflatten

__all__ = ["Options", "Specialisation"]


_Made = TypeVar("_Made")


class Options(NamedTuple):
    """How graphs are compiled: the arguments of `jit` that do not concern the capture."""

    level: str
    backend: str


class Specialisation:
    """A function, for one signature, one mode of recording and one state of what is guarded.

    Args:
        signature: Of the arguments.
        captured: The graph.
        options: How to compile it.
        mode: Whether operations were recorded and whether a transform was around, when it was captured.
    """

    def __init__(self, signature: Signature, captured: Captured, options: Options, mode: tuple[bool, bool]) -> None:
        self.signature, self.captured, self.options, self.mode = signature, captured, options, mode
        self.guards = GuardSet(captured.guards)
        weights = captured.graph.weights
        self._weights: list[Tensor] = [parameter.weight for parameter in weights if parameter.weight is not None]
        self._bound: list[Array] = [weight._data for weight in self._weights]
        self._needs_of_weights = [weight.requires_grad for weight in self._weights]
        self._check = checker(signature)
        self._assigned = [self._weights[number] for number in _assigned(captured.graph)]
        self._programs: dict[tuple[int, ...], tuple[Graph, Executable]] = {}
        self._functions: dict[tuple[int, ...], GraphFunction] = {}
        needs = (*signature.needs, *(False for _ in captured.keys), *self._needs_of_weights)
        self._reached = differentiable_outputs(captured.graph, needs) if mode[0] and any(needs) else ()
        self._is_recorded = any(self._reached)
        self._is_single = captured.structure.kind == "leaf" and not captured.actions

    def enter(self, arguments: tuple[object, ...], options: dict[str, object]) -> list[Array | Key] | None:
        """Return the arrays of a call that this may serve, None for another call."""
        arrays = self._check(arguments, options)
        if arrays is None or not self.guards.hold():
            return None
        for weight, array, needs in zip(self._weights, self._bound, self._needs_of_weights, strict=True):
            if weight._data is not array or weight.requires_grad is not needs:
                return arrays if self._rebind() else None
        return arrays

    def _rebind(self) -> bool:
        """Return whether the weights still have the types they were captured with; their arrays may be others."""
        bound = [weight._data for weight in self._weights]
        for weight, old, new, needs in zip(self._weights, self._bound, bound, self._needs_of_weights, strict=True):
            if new.shape != old.shape or new.dtype != old.dtype or weight.requires_grad is not needs:
                return False
        self._bound = bound
        return True

    def run(self, arguments: tuple[object, ...], options: dict[str, object], arrays: list[Array | Key]) -> object:
        """Return what the function returns for a call that was let in."""
        if self.captured.keys:
            arrays += [source() for source in self.captured.keys]
        if self._is_recorded:
            return self._finish(self._record(arguments, options, arrays))
        arrays += self._bound
        outputs = self.program()[1](arrays)
        for weight in self._assigned:
            weight.mark_changed()
        if self._is_single:
            return wrap(outputs[0]) if isinstance(outputs[0], np.ndarray) else outputs[0]
        return self._finish([wrap(x) if isinstance(x, np.ndarray) else x for x in outputs])

    def _record(
        self, arguments: tuple[object, ...], options: dict[str, object], arrays: list[Array | Key]
    ) -> list[object]:
        """Return the outputs as one node of the tape."""
        leaves: list[Leaf] = []
        flatten((arguments, options), leaves)
        keys = arrays[len(leaves) :]
        observers = observer_set()
        if observers not in self._functions:
            graph = insert_observers(self.captured.graph)
            self._functions[observers] = GraphFunction(graph, self.options.level, self.options.backend)
            _keep(self._functions, observers)
        inputs = [*(wrap(x) if isinstance(x, np.ndarray) else x for x in leaves), *keys, *self._weights]
        return self._functions[observers](inputs, self._reached, self._assigned)

    def _finish(self, outputs: list[object]) -> object:
        """Return the outputs nested, after the actions."""
        actions = self.captured.actions
        if actions:
            place = len(outputs) - sum(action.size for action in actions)
            rest = outputs[place:]
            for action in actions:
                action.function(*rest[: action.size])
                rest = rest[action.size :]
            outputs = outputs[:place]
        return unflatten(self.captured.structure, iter(outputs))

    def program(self) -> tuple[Graph, Executable]:
        """Return the graph with the observers that are attached now, and what runs it."""
        observers = observer_set()
        found = self._programs.get(observers)
        if found is None:
            graph = insert_observers(self.captured.graph)
            found = self._programs[observers] = (graph, compile(graph, *self.options, given=self._destinations()))
            _keep(self._programs, observers)
        return found

    def _destinations(self) -> dict[int, Array]:
        """Return the arrays in which actions want what they are called with, by number of the output."""
        actions = self.captured.actions
        result = self.captured.graph.result.type
        place = len(result.elements) - sum(action.size for action in actions) if isinstance(result, TupleType) else 0
        found: dict[int, Array] = {}
        for action in actions:
            wanted = getattr(action.function, "destinations", None)
            if wanted is not None:
                found.update(enumerate(wanted(), place))
            place += action.size
        return found

    def differs(self, signature: Signature, mode: tuple[bool, bool]) -> str:
        """Return why a call could not be served by this, in words."""
        if signature != self.signature:
            return _difference(self.signature, signature)
        if mode != self.mode:
            return "gradients are recorded or not, unlike when it was captured"
        broken = self.guards.broken()
        if broken is not None:
            return broken.complaint()
        return "a weight changed its shape, its dtype or whether it requires a gradient"


def _keep(table: dict[tuple[int, ...], _Made], observers: tuple[int, ...]) -> None:
    """Keep only what was made without observers and with these."""
    for stale in [key for key in table if key not in ((), observers)]:
        del table[stale]


def _difference(old: Signature, new: Signature) -> str:
    if old.structure != new.structure:
        return "the arguments have another structure or other values that are no tensors"
    for number, (a, b) in enumerate(zip(old.specs, new.specs, strict=True)):
        if a != b:
            return f"tensor {number} of the arguments was {_words(a)}, is {_words(b)}"
    return "tensors of the arguments require gradients, unlike when it was captured"


def _words(spec: Spec | OpaqueType) -> str:
    return f"{spec.shape} {spec.dtype}" if isinstance(spec, Spec) else str(spec)


def _assigned(graph: Graph) -> list[int]:
    """Return the weights that the graph overwrites, by their place among the weights."""
    targets = set()
    for inner in reachable(graph):
        for node in order(inner):
            if node.applies("assign"):
                targets.add(node.inputs[1])
    return [number for number, parameter in enumerate(graph.weights) if parameter in targets]
