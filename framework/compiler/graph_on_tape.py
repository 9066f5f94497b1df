"""A compiled graph on the eager tape: one node whose backward is a compiled graph, or a replay by operation.

    forward     (inputs) -> (outputs, *residuals)                  compiled by what is to be differentiated by
    pull-back   (residuals, cotangents) -> gradients
    second      (inputs, cotangents) -> gradients                  where backward is itself recorded: once more a
                                                                   GraphFunction, so derivatives of any order exist

The second computes the outputs again instead of taking residuals, which are no function of the inputs on the tape. Its
random keys are inputs, so they are those of the first time; assignments and hooks are left out of it.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ..context import RECORDING
from ..dtype import is_inexact
from ..errors import GradientError
from ..ir import Abstract, Apply, ConstantNode, Graph, Node, TupleType
from ..ir.control_ops import Control, tuple_getitem
from ..ir.visit import order
from ..ops import add, zeros_like
from ..primitive import Primitive
from ..specs import Spec
from ..tape_node import TapeNode
from ..tensor import Tensor, TensorLike, wrap
from .graph_gradient import forward_and_pullback
from .passes.structural_passes import inline
from .pipeline import Executable, compile
from .rewrite import rebuild
from .signature import Leaf

__all__ = ["GraphFunction", "differentiable_outputs"]


def without_effects(graph: Graph) -> Graph:
    """Return a graph of the same results that assigns, observes and calls nothing.

    Raises:
        GradientError: It takes random keys inside a branch or loop, which a second run would take anew.
    """

    def pure(node: Apply, inputs: list[Node], home: Graph) -> Node | None:
        del home
        applied = getattr(node.function, "value", None)
        name = getattr(applied, "name", "")
        if name in ("depend", "observe", "mark", "show", "gate", "observe_gradient", "mark_gradient", "segment"):
            return inputs[1] if len(inputs) == 2 or name == "depend" else None
        if name == "assign":
            return inputs[2]
        if name == "next_key":
            raise GradientError(
                f"a derivative of second order of '{graph.name}', which takes random keys inside a branch or loop over "
                f"tensors, cannot be taken from outside; take it inside the compiled function"
            )
        return None

    return rebuild(graph, pure)


#: The cotangent of a tensor, or of every value of an environment.
_Cotangent: TypeAlias = "TensorLike | tuple[_Cotangent, ...] | None"


def _sum(a: _Cotangent, b: _Cotangent) -> _Cotangent:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        assert isinstance(b, tuple)
        return tuple(_sum(x, y) for x, y in zip_longest(a, b))
    assert not isinstance(b, tuple)
    return add(a, b)


def _zero(x: object) -> _Cotangent:
    if isinstance(x, tuple):
        return tuple(_zero(part) for part in x)
    return zeros_like(x) if isinstance(x, Tensor) and is_inexact(x.dtype) else None


def _part(environment: tuple[_Cotangent, ...] | None, like: object, *, index: int) -> _Cotangent:
    found = environment[index] if environment is not None and index < len(environment) else None
    return _zero(like) if found is None else found


#: What the operations on cotangents are for tensors of any class.
_ON_TENSORS: dict[str, Callable[..., object]] = {
    "add_cotangents": _sum,
    "environment_getitem": _part,
    "make_environment": lambda *parts: parts,
    "zero_cotangent": lambda *, shape, dtype: wrap(np.zeros(shape, dtype)),
    "zero_cotangent_like": _zero,
}


def replay(graph: Graph, inputs: Sequence[object]) -> list[Tensor]:
    """Return the outputs of a graph applied to tensors of any class, operation by operation.

    Raises:
        GradientError: The graph has branches or loops.
    """
    flat = inline(graph)
    values: dict[Node, object] = dict(zip(flat.parameters, inputs, strict=True))
    for node in order(flat):
        applied = getattr(node.function, "value", None)
        arguments = [values[x] if x in values else _constant(x) for x in node.arguments]
        if isinstance(applied, Primitive):
            values[node] = applied(*arguments, **node.attributes)
        elif isinstance(applied, Control) and applied.name in ("make_tuple", "tuple_getitem", "depend"):
            values[node] = applied.evaluate(*arguments, **node.attributes)
        elif isinstance(applied, Control) and applied.name in _ON_TENSORS:
            values[node] = _ON_TENSORS[applied.name](*arguments, **node.attributes)
        else:
            raise GradientError(
                f"the compiled function '{graph.name}' has branches or loops over tensors, so its derivative cannot be "
                f"transformed from outside; compile the transformed function instead: jit(vmap(f)), jit(grad(f))"
            )
    return list(cast("tuple[Tensor, ...]", values[flat.result]))


def _constant(node: Node) -> object:
    assert isinstance(node, ConstantNode)
    value = node.value
    return wrap(value) if isinstance(value, np.ndarray) else value


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

    def __call__(
        self, inputs: Sequence[Leaf], reached: Sequence[bool], assigned: Sequence[Tensor] = ()
    ) -> list[Any]:  # tensors, keys and numbers
        """Return the outputs; those that are `reached` from an input that requires a gradient are recorded."""
        by = tuple(i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad)
        weighted = tuple(i for i, is_reached in enumerate(reached) if is_reached)
        arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
        outputs, *residuals = self._pair(by, weighted).forward(arrays)
        residuals = [_apart(x, assigned) for x in residuals]
        for weight in assigned:
            weight.mark_changed()
        node = TapeNode(self, tuple(inputs), {"by": by, "weighted": weighted}, None, len(outputs))
        node.outputs = tuple(residuals)
        return [_output(x, node, i, i in weighted) for i, x in enumerate(outputs)]

    def _pair(self, by: tuple[int, ...], weighted: tuple[int, ...]) -> _Pair:
        if (by, weighted) not in self._pairs:
            forward, back = forward_and_pullback(self._graph, by, cotangents=weighted)
            compiled = (compile(graph, self._level, self._backend) for graph in (forward, back))
            self._pairs[by, weighted] = _Pair(*compiled)
        return self._pairs[by, weighted]

    def pull_back(
        self, node: TapeNode, inputs: Sequence[object], needs: Sequence[bool], g: Any
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the inputs, from those of the outputs."""
        by, weighted = node.attributes["by"], node.attributes["weighted"]
        given = g if node.size > 1 else (g,)
        types = self._graph.result.type
        assert isinstance(types, TupleType)
        cotangents = [_zeros(types.elements[i]) if given[i] is None else given[i] for i in weighted]
        if any(x.__fallback__ is not None for x in cotangents):
            found: Sequence[Tensor] = replay(self._second(by, weighted)._graph, [*inputs, *cotangents])
        elif RECORDING.get():
            function = self._second(by, weighted)
            found = function([*cast("Sequence[Leaf]", inputs), *cotangents], (True,) * len(by))
        else:
            arrays = self._pair(by, weighted).back([*node.outputs, *(x._data for x in cotangents)])
            found = [wrap(array) for array in arrays]
        gradients = dict(zip(by, found, strict=True))
        return [gradients.get(i) if need else None for i, need in enumerate(needs)]

    def _second(self, by: tuple[int, ...], weighted: tuple[int, ...]) -> "GraphFunction":
        """Return the function of inputs and cotangents whose value is the gradients."""
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


def _output(value: object, node: TapeNode, index: int, is_recorded: bool) -> object:
    if not isinstance(value, np.ndarray):
        return value
    result = wrap(value)
    if is_recorded and is_inexact(value.dtype):
        result._node, result._index, result.requires_grad = node, index, True
    return result


def _apart(residual: object, assigned: Sequence[Tensor]) -> object:
    """Return a residual that does not change when the weights that the graph assigns do so the next time."""
    if isinstance(residual, np.ndarray) and any(np.may_share_memory(residual, weight._data) for weight in assigned):
        return residual.copy()
    return residual


def _zeros(type: Abstract) -> Tensor:
    assert isinstance(type, Spec)
    return wrap(np.zeros(type.shape, type.dtype))


def differentiable_outputs(graph: Graph, needs: Sequence[bool]) -> tuple[bool, ...]:
    """Return which parts of the tuple that a graph returns have a derivative by the parameters marked in `needs`."""
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


def _can_carry(type: Abstract) -> bool:
    return not isinstance(type, Spec) or is_inexact(type.dtype)


def _is_live(node: Apply, live: set[Node]) -> bool:
    """Return whether a gradient may flow through an application; of calls it is assumed."""
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
