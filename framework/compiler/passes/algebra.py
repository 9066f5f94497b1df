"""Algebra: what need not be computed because it changes nothing, and chains of views made one.

Only identities that hold for every value, NaN, infinities and the sign of zero included, and to the last bit.
"""

from math import prod
from typing import Any as Unknown

import numpy as np

from ...ir import Apply, Constant, Graph, Node
from ...primitive import PRIMITIVES
from ...shape import Spec
from ...tensor import wrap
from ..pattern import Any, Call, Match
from ..rewrite import Rewrite, apply_rewrites, rewrite, rewriting

__all__ = ["simplify"]

_x, _y = Any("x"), Any("y")


def simplify(graph: Graph) -> Graph:
    """In: any graph. Out: without operations that change nothing, and with chains of views as one view."""
    return apply_rewrites(graph, _RULES)


def _same_type(found: Match) -> Node | None:
    """The variable `x`, where it is of the type of the whole: without broadcasting and without a cast."""
    x: Node = found["x"]
    return x if x.type == found.node.type else None


@rewriting(Call("reshape", Call("reshape", _x), shape=Any("shape")))
def _reshape_twice(found: Match) -> Node:
    return found.apply("reshape", found["x"], shape=found["shape"])


@rewriting(Call("transpose", _x, axes=Any("axes")))
def _turn_nothing(found: Match) -> Node | None:
    return found["x"] if tuple(found["axes"]) == tuple(range(len(found["axes"]))) else None


@rewriting(Call("transpose", Call("transpose", _x, axes=Any("inner")), axes=Any("outer")))
def _turn_twice(found: Match) -> Node:
    return found.apply("transpose", found["x"], axes=tuple(found["inner"][axis] for axis in found["outer"]))


@rewriting(Call("swapaxes", _x, first=Any("first"), second=Any("second")))
def _swap(found: Match) -> Node | None:
    """As a transpose, so that chains of both become one."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec):
        return None
    axes = list(range(x.type.ndim))
    i, j = found["first"] % len(axes), found["second"] % len(axes)
    axes[i], axes[j] = axes[j], axes[i]
    return found.apply("transpose", x, axes=tuple(axes))


@rewriting(Call("reshape", Call("transpose", _x, axes=Any("axes"))))
def _turn_of_ones(found: Match) -> Node | None:
    """A transpose that moves only axes of length 1 is a reshape."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec):
        return None
    moved = [axis for axis in found["axes"] if x.type.shape[axis] != 1]
    if moved != sorted(moved) or not isinstance(found.node.type, Spec):
        return None
    return found.apply("reshape", x, shape=found.node.type.shape)


@rewriting(Call("broadcast_to", Call("broadcast_to", _x), shape=Any("shape")))
def _broadcast_twice(found: Match) -> Node:
    return found.apply("broadcast_to", found["x"], shape=found["shape"])


@rewriting(Call("cast", Call("cast", _x, dtype=Any("inner")), dtype=Any("outer")))
def _cast_twice(found: Match) -> Node | None:
    """A cast to a wider type and back (or on) is the last cast alone."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec) or not _holds(found["inner"], x.type.dtype):
        return None
    return found.apply("cast", x, dtype=found["outer"])


def _holds(wide: Unknown, narrow: Unknown) -> bool:
    """Whether every value of the narrow floating or integer type is one of the wide."""
    if wide.kind != narrow.kind or narrow.kind not in "fiu":
        return bool(narrow.kind == "b" and wide.kind in "iuf")
    return bool(wide.itemsize >= narrow.itemsize)


@rewriting(Call(("add", "subtract", "multiply", "maximum", "minimum", "divide"), Any("a"), Any("b")))
def _spread_for_nothing(found: Match) -> Node | None:
    """`broadcast_to` in front of an operation that broadcasts, where the other operand has the whole shape."""
    a, b = found["a"], found["b"]
    whole = found.node.type
    if not (isinstance(whole, Spec) and isinstance(a.type, Spec) and isinstance(b.type, Spec)):
        return None
    name = found.node.inputs[0].value.name  # type: ignore[attr-defined]
    if _is_spread(a) and b.type.shape == whole.shape and not b.type.weak:
        return found.apply(name, a.arguments[0], b)
    if _is_spread(b) and a.type.shape == whole.shape and not a.type.weak:
        return found.apply(name, a, b.arguments[0])
    return None


def _is_spread(node: Node) -> bool:
    return isinstance(node, Apply) and node.applies("broadcast_to")


@rewriting(Call("sum_to", Call("sum_to", _x), shape=Any("shape")))
def _sum_twice(found: Match) -> Node:
    return found.apply("sum_to", found["x"], shape=found["shape"])


@rewriting(Call("full_like", _x, value=Any("value")))
def _filled(found: Match) -> Node | None:
    """One number, spread: nothing depends on the values of `x`."""
    like = found.node.type
    if not isinstance(like, Spec) or not all(isinstance(n, int) for n in like.shape):
        return None
    number = Constant(wrap(np.asarray(found["value"], like.dtype)))
    return number if not like.shape else found.graph.apply(PRIMITIVES["broadcast_to"], number, shape=like.shape)


@rewriting(Call("matmul", Any("a"), Any("b")))
def _flat_product(found: Match) -> Node | None:
    """A stack times one matrix is one product of all rows."""
    a, b = found["a"], found["b"]
    if not (isinstance(a.type, Spec) and isinstance(b.type, Spec)) or a.type.ndim < 3 or b.type.ndim != 2:
        return None
    shape = a.type.shape
    rows = found.apply("reshape", a, shape=(prod(shape[:-1]), shape[-1]))
    product = found.apply("matmul", rows, b)
    return found.apply("reshape", product, shape=(*shape[:-1], b.type.shape[1]))


_RULES: tuple[Rewrite, ...] = (
    Rewrite(Call("identity", _x), _same_type),
    Rewrite(Call("stop_gradient", _x), _same_type),
    Rewrite(Call("multiply", _x, 1.0), _same_type),
    Rewrite(Call("multiply", 1.0, _x), _same_type),
    Rewrite(Call("divide", _x, 1.0), _same_type),
    Rewrite(Call("subtract", _x, 0.0), _same_type),
    Rewrite(Call("add", _x, -0.0), _same_type),
    Rewrite(Call("power", _x, 1.0), _same_type),
    rewrite(Call("negative", Call("negative", _x)), _x),
    Rewrite(Call("conj", Call("conj", _x)), _same_type),
    Rewrite(Call(("reshape", "broadcast_to", "sum_to", "cast"), _x), _same_type),
    _filled,
    _reshape_twice,
    _swap,
    _turn_nothing,
    _turn_twice,
    _turn_of_ones,
    _broadcast_twice,
    _cast_twice,
    _spread_for_nothing,
    _sum_twice,
    _flat_product,
)
