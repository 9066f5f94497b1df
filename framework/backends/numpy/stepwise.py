"""Graphs with control flow: the reference evaluator runs them step by step, groups of operations as fused kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.passes.fuse import Fused
from ...compiler.rebuild import rebuild
from ...compiler.vm import Evaluator
from ...ir import Apply, Constant, Graph, Node, TupleType
from ...primitive import Primitive
from ...shape import Spec
from ...tensor import Array
from .kernel import kernel_of
from .loops import Loop, loop_of

__all__ = ["Stepwise"]


class Stepwise:
    """A compiled graph with control flow.

    Args:
        graph: Optimised, groups of operations applied as `Fused` graphs.
    """

    def __init__(self, graph: Graph) -> None:
        self._evaluator = Evaluator(rebuild(graph, _as_primitive))

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result for these arrays, one for each parameter; no part of it is an argument or another part."""
        seen = {id(_owner(x)) for x in arguments if isinstance(x, np.ndarray)}
        return _apart(self._evaluator(arguments), seen)


class _KernelPrimitive(Primitive):
    """A fused kernel in the place of a primitive; it stands in no table."""

    __slots__ = ()

    def __init__(self, loop: Loop) -> None:
        self.name = loop.fused.name
        self.evaluate = _allocating(loop)
        self.is_effect = False


def _as_primitive(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    function = inputs[0]
    if not isinstance(function, Constant) or not isinstance(function.value, Fused):
        return None
    kernel = Constant(_KernelPrimitive(loop_of(function.value)))
    return Apply(graph, [kernel, *inputs[1:]], node.type, None, node.where)


def _allocating(loop: Loop) -> Any:
    """The evaluation of a kernel that makes its results."""
    result = loop.fused.result.type
    specs = result.elements if isinstance(result, TupleType) else (result,)
    layouts = [(x.dtype, len(x.shape)) for x in (*loop.inputs, *loop.outputs)]
    kernel = kernel_of(loop, {}, layouts)

    def evaluate(*arrays: Any) -> Any:
        given = [np.ascontiguousarray(x).reshape(y.shape) for x, y in zip(arrays, loop.inputs, strict=True)]
        made = [np.empty(spec.shape, spec.dtype) for spec in specs if isinstance(spec, Spec)]
        kernel(*given, *(x.reshape(y.shape) for x, y in zip(made, loop.outputs, strict=True)))
        return tuple(made) if isinstance(result, TupleType) else made[0]

    return evaluate


def _apart(value: Any, seen: set[int]) -> Any:
    """The value, arrays copied whose memory has been seen."""
    if isinstance(value, tuple):
        return tuple([_apart(part, seen) for part in value])
    if not isinstance(value, np.ndarray):
        return value
    owner = id(_owner(value))
    if owner in seen:
        return value.copy()
    seen.add(owner)
    return value


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
