"""A compiled graph on the eager tape: one node, whose way back is a compiled graph as well.

    forward     (inputs) -> (outputs, *residuals)                  compiled by what is to be differentiated by
    pull-back   (residuals, cotangents) -> gradients
    second      (inputs, cotangents) -> gradients                  where the way back is itself recorded: once more a
                                                                   GraphFunction, so derivatives of any order exist

The second computes the outputs again instead of taking residuals, which are no function of the inputs on the tape. Its
random keys are inputs, so they are those of the first time; assignments and hooks are left out of it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..context import RECORDING
from ..dtype import is_inexact
from ..ir import Apply, Graph, Node, TupleType
from ..ir.control import Control, tuple_getitem
from ..ir.visit import order
from ..node import Node as TapeNode
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Parameter, Tensor, wrap
from .grad import forward_and_pullback
from .pipeline import Executable, compile
from .replay import replay, without_effects

__all__ = ["GraphFunction", "differentiable_outputs"]


class _Pair(NamedTuple):
    forward: Executable
    back: Executable


class GraphFunction:
    """A graph that takes tensors and is recorded as one operation; it looks to the tape as a primitive does.

    Args:
        graph: Returns a tuple.
        level: For `compile`.
        backend: For `compile`.
    """

    is_differentiable = True
    saves_output = False

    def __init__(self, graph: Graph, level: str, backend: str) -> None:
        self.name = graph.name
        self._graph, self._level, self._backend = graph, level, backend
        self._pairs: dict[tuple[tuple[int, ...], tuple[int, ...]], _Pair] = {}
        self._seconds: dict[tuple[tuple[int, ...], tuple[int, ...]], GraphFunction] = {}

    def __call__(self, inputs: Sequence[Any], reached: Sequence[bool], assigned: Sequence[Parameter] = ()) -> list[Any]:
        """The outputs; those that are `reached` from an input that requires a gradient are recorded."""
        by = tuple(i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad)
        weighted = tuple(i for i, is_reached in enumerate(reached) if is_reached)
        arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
        outputs, *residuals = self._pair(by, weighted).forward(arrays)
        residuals = [_apart(x, assigned) for x in residuals]
        for weight in assigned:
            weight.mark_changed()
        node = TapeNode(self, tuple(inputs), {"by": by, "weighted": weighted}, None, len(outputs))  # type: ignore[arg-type]
        node.outputs = tuple(residuals)
        return [_output(x, node, i, i in weighted) for i, x in enumerate(outputs)]

    def _pair(self, by: tuple[int, ...], weighted: tuple[int, ...]) -> _Pair:
        if (by, weighted) not in self._pairs:
            forward, back = forward_and_pullback(self._graph, by, cotangents=weighted)
            compiled = (compile(graph, self._level, self._backend) for graph in (forward, back))
            self._pairs[by, weighted] = _Pair(*compiled)
        return self._pairs[by, weighted]

    def pull_back(self, node: TapeNode, inputs: Sequence[Any], needs: Sequence[bool], g: Any) -> Sequence[Any]:
        """The gradients of the inputs, from those of the outputs."""
        by, weighted = node.attributes["by"], node.attributes["weighted"]
        given = g if node.size > 1 else (g,)
        types = self._graph.result.type
        assert isinstance(types, TupleType)
        cotangents = [_zeros(types.elements[i]) if given[i] is None else given[i] for i in weighted]
        if any(x.__fallback__ is not None for x in cotangents):
            found: Sequence[Any] = replay(self._second(by, weighted)._graph, [*inputs, *cotangents])
        elif RECORDING.get():
            function = self._second(by, weighted)
            found = function([*inputs, *cotangents], (True,) * len(by))
        else:
            found = self._pair(by, weighted).back([*node.outputs, *(x._data for x in cotangents)])
            found = [wrap(array) for array in found]
        gradients = dict(zip(by, found, strict=True))
        return [gradients.get(i) if need else None for i, need in enumerate(needs)]

    def _second(self, by: tuple[int, ...], weighted: tuple[int, ...]) -> "GraphFunction":
        """The function of inputs and cotangents whose value is the gradients."""
        if (by, weighted) not in self._seconds:
            forward, back = forward_and_pullback(without_effects(self._graph), by, cotangents=weighted)
            whole = Graph(f"gradient.{self.name}")
            inputs = [whole.add_parameter(p.type, p.name) for p in forward.parameters]
            first = whole.call(forward, *inputs)
            assert isinstance(forward.result.type, TupleType)
            count = len(forward.result.type.elements)
            residuals = [whole.apply(tuple_getitem, first, index=i) for i in range(1, count)]
            given = [whole.add_parameter(p.type, p.name) for p in back.parameters[count - 1 :]]
            whole.output = whole.call(back, *residuals, *given)
            self._seconds[by, weighted] = GraphFunction(whole, self._level, self._backend)
        return self._seconds[by, weighted]

    def __repr__(self) -> str:
        return f"GraphFunction({self.name})"


def _output(value: Any, node: TapeNode, index: int, is_recorded: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    result = wrap(value)
    if is_recorded and is_inexact(value.dtype):
        result._node, result._index, result.requires_grad = node, index, True
    return result


def _apart(residual: Any, assigned: Sequence[Parameter]) -> Any:
    """A residual that does not change when the weights that the graph assigns do so the next time."""
    if isinstance(residual, np.ndarray) and any(np.may_share_memory(residual, weight._data) for weight in assigned):
        return residual.copy()
    return residual


def _zeros(type: Any) -> Tensor:
    assert isinstance(type, Spec)
    return wrap(np.zeros(type.shape, type.dtype))


def differentiable_outputs(graph: Graph, needs: Sequence[bool]) -> tuple[bool, ...]:
    """Which parts of the tuple that a graph returns have a derivative by the parameters marked in `needs`."""
    live: set[Node] = {p for p, need in zip(graph.parameters, needs, strict=True) if need}
    for node in order(graph):
        if _is_live(node, live):
            live.add(node)
    result = graph.result
    if isinstance(result, Apply) and result.applies("depend"):
        result = result.arguments[0]
    assert isinstance(result.type, TupleType)
    if not isinstance(result, Apply) or not result.applies("make_tuple"):
        return tuple(_can_carry(part) and result in live for part in result.type.elements)
    return tuple(x in live and _can_carry(x.type) for x in result.arguments)


def _can_carry(type: Any) -> bool:
    return not isinstance(type, Spec) or is_inexact(type.dtype)


def _is_live(node: Apply, live: set[Node]) -> bool:
    """Whether a gradient may flow through an application; of calls it is assumed."""
    applied = getattr(node.function, "value", None)
    if isinstance(node.type, Spec) and not is_inexact(node.type.dtype):
        return False
    if isinstance(applied, Primitive):
        if not applied.is_differentiable or applied.name == "stop_gradient":
            return False
        return any(
            x in live and (not applied._rules or i >= len(applied._rules) or applied._rules[i] is not None)
            for i, x in enumerate(node.arguments)
        )
    if isinstance(applied, Control):
        inputs = node.arguments[:1] if applied.name == "depend" else node.arguments
        return applied.name not in ("host_call", "next_key") and any(x in live for x in inputs)
    return True
