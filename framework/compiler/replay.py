"""A graph run on tensors, operation by operation, so that what intercepts or records them sees it."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from ..dtype import is_inexact
from ..errors import GradientError
from ..ir import Apply, Constant, Graph, Node
from ..ir.control import Control
from ..ir.visit import order
from ..ops import add, zeros_like
from ..primitive import Primitive
from ..tensor import Tensor, wrap
from .passes import inline
from .rebuild import rebuild


def without_effects(graph: Graph) -> Graph:
    """In: a graph. Out: one of the same results that assigns, observes and calls nothing.

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


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(_sum(x, y) for x, y in zip_longest(a, b))
    return add(a, b)


def _zero(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_zero(part) for part in x)
    return zeros_like(x) if isinstance(x, Tensor) and is_inexact(x.dtype) else None


def _part(environment: tuple[Any, ...] | None, like: Any, *, index: int) -> Any:
    found = environment[index] if environment is not None and index < len(environment) else None
    return _zero(like) if found is None else found


#: What the operations on cotangents are for tensors of any class.
_ON_TENSORS: dict[str, Callable[..., Any]] = {
    "add_cotangents": _sum,
    "environment_getitem": _part,
    "make_environment": lambda *parts: parts,
    "zero_cotangent": lambda *, shape, dtype: wrap(np.zeros(shape, dtype)),
    "zero_cotangent_like": _zero,
}


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph applied to tensors of any class, operation by operation.

    Raises:
        GradientError: The graph has branches or loops.
    """
    flat = inline(graph)
    values: dict[Node, Any] = dict(zip(flat.parameters, inputs, strict=True))
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
    return list(values[flat.result])


def _constant(node: Node) -> Any:
    assert isinstance(node, Constant)
    value = node.value
    return wrap(value) if isinstance(value, np.ndarray) else value
