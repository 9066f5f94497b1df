"""Algebra: passes that drop what changes nothing, join views, move pooling and take composite primitives apart.

Only identities that hold for every value, NaN, infinities and the sign of zero included, and to the last bit.

    max_pool(relu(x))                               ->  relu(max_pool(x))
    relu_gradient(put_places(g, places), relu(x))   ->  put_places(relu_gradient(g, pooled), places)
    sum(put_places(g, places)) over the plane       ->  sum(g) over the plane

The values are the same: relu keeps order, and NaN. The places are the same but in windows without a positive element,
where the gradient is 0 wherever it is put; therefore both rewrites are made together, or none.
"""

from math import prod

import numpy as np

from ...dtype import Dtype
from ...ir import Apply, ConstantNode, Graph, Node
from ...ir.control_ops import tuple_getitem
from ...ir.visit import users
from ...primitive import PRIMITIVES
from ...specs import Spec
from ...tensor import wrap
from ..rewrite import CallPattern, Match, Rewrite, Wildcard, apply_rewrites, rebuild, rewrite, rewriting

__all__ = ["expand", "pool_first", "simplify"]

_x, _y = Wildcard("x"), Wildcard("y")


def simplify(graph: Graph) -> Graph:
    """Remove operations that change nothing, and make chains of views one view."""
    return apply_rewrites(graph, _RULES)


def _same_type(found: Match) -> Node | None:
    """Return the variable `x`, where it is of the type of the whole: without broadcasting and without a cast."""
    x: Node = found["x"]
    return x if x.type == found.node.type else None


@rewriting(CallPattern("reshape", CallPattern("reshape", _x), shape=Wildcard("shape")))
def _reshape_twice(found: Match) -> Node:
    return found.apply("reshape", found["x"], shape=found["shape"])


@rewriting(CallPattern("transpose", _x, axes=Wildcard("axes")))
def _turn_nothing(found: Match) -> Node | None:
    return found["x"] if tuple(found["axes"]) == tuple(range(len(found["axes"]))) else None


@rewriting(CallPattern("transpose", CallPattern("transpose", _x, axes=Wildcard("inner")), axes=Wildcard("outer")))
def _turn_twice(found: Match) -> Node:
    return found.apply("transpose", found["x"], axes=tuple(found["inner"][axis] for axis in found["outer"]))


@rewriting(CallPattern("swapaxes", _x, first=Wildcard("first"), second=Wildcard("second")))
def _swap(found: Match) -> Node | None:
    """Rewrite as a transpose, so that chains of both become one."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec):
        return None
    axes = list(range(x.type.ndim))
    i, j = found["first"] % len(axes), found["second"] % len(axes)
    axes[i], axes[j] = axes[j], axes[i]
    return found.apply("transpose", x, axes=tuple(axes))


@rewriting(CallPattern("reshape", CallPattern("transpose", _x, axes=Wildcard("axes"))))
def _turn_of_ones(found: Match) -> Node | None:
    """Replace a transpose that moves only axes of length 1 by a reshape."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec):
        return None
    moved = [axis for axis in found["axes"] if x.type.shape[axis] != 1]
    if moved != sorted(moved) or not isinstance(found.node.type, Spec):
        return None
    return found.apply("reshape", x, shape=found.node.type.shape)


@rewriting(CallPattern("broadcast_to", CallPattern("broadcast_to", _x), shape=Wildcard("shape")))
def _broadcast_twice(found: Match) -> Node:
    return found.apply("broadcast_to", found["x"], shape=found["shape"])


@rewriting(CallPattern("cast", CallPattern("cast", _x, dtype=Wildcard("inner")), dtype=Wildcard("outer")))
def _cast_twice(found: Match) -> Node | None:
    """Replace a cast to a wider type and back (or on) by the last cast alone."""
    x: Node = found["x"]
    if not isinstance(x.type, Spec) or not _holds(found["inner"], x.type.dtype):
        return None
    return found.apply("cast", x, dtype=found["outer"])


def _holds(wide: Dtype, narrow: Dtype) -> bool:
    """Return whether every value of the narrow floating or integer type is one of the wide."""
    if wide.kind != narrow.kind or narrow.kind not in "fiu":
        return bool(narrow.kind == "b" and wide.kind in "iuf")
    return bool(wide.itemsize >= narrow.itemsize)


@rewriting(CallPattern(("add", "subtract", "multiply", "maximum", "minimum", "divide"), Wildcard("a"), Wildcard("b")))
def _spread_for_nothing(found: Match) -> Node | None:
    """Drop `broadcast_to` in front of an operation that broadcasts, where the other operand has the whole shape."""
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


@rewriting(CallPattern("sum_to", CallPattern("sum_to", _x), shape=Wildcard("shape")))
def _sum_twice(found: Match) -> Node:
    return found.apply("sum_to", found["x"], shape=found["shape"])


@rewriting(CallPattern("full_like", _x, value=Wildcard("value")))
def _filled(found: Match) -> Node | None:
    """Spread one number: nothing depends on the values of `x`."""
    like = found.node.type
    if not isinstance(like, Spec) or not all(isinstance(n, int) for n in like.shape):
        return None
    number = ConstantNode(wrap(np.asarray(found["value"], like.dtype)))
    return number if not like.shape else found.graph.apply(PRIMITIVES["broadcast_to"], number, shape=like.shape)


@rewriting(CallPattern("matmul", Wildcard("a"), Wildcard("b")))
def _flat_product(found: Match) -> Node | None:
    """Replace a stack times one matrix by one product of all rows."""
    a, b = found["a"], found["b"]
    if not (isinstance(a.type, Spec) and isinstance(b.type, Spec)) or a.type.ndim < 3 or b.type.ndim != 2:
        return None
    shape = a.type.shape
    rows = found.apply("reshape", a, shape=(prod(shape[:-1]), shape[-1]))
    product = found.apply("matmul", rows, b)
    return found.apply("reshape", product, shape=(*shape[:-1], b.type.shape[1]))


_RULES: tuple[Rewrite, ...] = (
    Rewrite(CallPattern("identity", _x), _same_type),
    Rewrite(CallPattern("stop_gradient", _x), _same_type),
    Rewrite(CallPattern("multiply", _x, 1.0), _same_type),
    Rewrite(CallPattern("multiply", 1.0, _x), _same_type),
    Rewrite(CallPattern("divide", _x, 1.0), _same_type),
    Rewrite(CallPattern("subtract", _x, 0.0), _same_type),
    Rewrite(CallPattern("add", _x, -0.0), _same_type),
    Rewrite(CallPattern("power", _x, 1.0), _same_type),
    rewrite(CallPattern("negative", CallPattern("negative", _x)), _x),
    Rewrite(CallPattern("conj", CallPattern("conj", _x)), _same_type),
    Rewrite(CallPattern(("reshape", "broadcast_to", "sum_to", "cast"), _x), _same_type),
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


def pool_first(graph: Graph) -> Graph:
    """Move maximum pooling before relu, forward and backward."""
    used = users(graph)
    pools = {node for nodes in used.values() for node in nodes if _can_move(node, used, graph)}
    return apply_rewrites(rebuild(graph, _Moving(pools).rule) if pools else graph, (_sum_of_put,))


def _can_move(node: Apply, used: dict[Node, list[Apply]], graph: Graph) -> bool:
    """Return whether the node pools what a relu gives, and places and activated images serve nothing else."""
    if not node.applies("max_pool"):
        return False
    active = node.arguments[0]
    if not isinstance(active, Apply) or not active.applies("relu") or active is graph.output:
        return False
    if not all(user is node or _is_slope(user, active, node) for user in used[active]):
        return False
    parts = used.get(node, [])
    if not all(part.applies("tuple_getitem") for part in parts) or node is graph.output:
        return False
    places = [part for part in parts if part.attributes["index"] == 1]
    return all(_serves_slopes(part, active, used) and part is not graph.output for part in places)


def _is_slope(user: Apply, active: Node, pool: Apply) -> bool:
    """Return whether the user is the gradient of the relu, of what was put back by this pool's places."""
    if not user.applies("relu_gradient") or user.arguments[1] is not active or user.arguments[0] is active:
        return False
    put = user.arguments[0]
    if not isinstance(put, Apply) or not put.applies("put_places"):
        return False
    places = put.arguments[1]
    return isinstance(places, Apply) and places.applies("tuple_getitem") and places.arguments[0] is pool


def _serves_slopes(places: Apply, active: Node, used: dict[Node, list[Apply]]) -> bool:
    for put in used.get(places, []):
        if not put.applies("put_places") or put.arguments[1] is not places:
            return False
        if not all(user.applies("relu_gradient") and user.arguments[1] is active for user in used.get(put, [])):
            return False
    return True


class _Moving:
    """The rewrite of the pools that can be moved."""

    def __init__(self, pools: set[Apply]) -> None:
        self._pools = pools
        self._moved: dict[Node, Apply] = {}  # from what the new pool gives to what it pools, rebuilt

    def rule(self, node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
        """Let pools read what the relu reads; their first part is activated; gradients pass relu before the pool."""
        if node in self._pools:
            active = inputs[1]
            assert isinstance(active, Apply)
            pool = graph.apply(PRIMITIVES["max_pool"], active.arguments[0], where=node.where, **node.attributes)
            self._moved[active] = pool
            return pool
        if node.applies("tuple_getitem") and node.arguments[0] in self._pools and node.attributes["index"] == 0:
            return self._pooled(inputs[1], graph)
        if node.applies("relu_gradient") and inputs[2] in self._moved:
            put = inputs[1]
            assert isinstance(put, Apply)
            g, places = put.arguments
            slope = PRIMITIVES["relu_gradient"]
            turned = graph.apply(slope, g, self._pooled(self._moved[inputs[2]], graph), where=node.where)
            return graph.apply(PRIMITIVES["put_places"], turned, places, where=put.where, **put.attributes)
        return None

    @staticmethod
    def _pooled(pool: Node, graph: Graph) -> Apply:
        return graph.apply(PRIMITIVES["relu"], graph.apply(tuple_getitem, pool, index=0), where=pool.where)


def _is_of_pool(node: Node) -> bool:
    is_part = isinstance(node, Apply) and node.applies("tuple_getitem")
    return is_part and isinstance(node, Apply) and getattr(node.arguments[0], "applies", lambda _: False)("max_pool")


@rewriting(
    CallPattern(
        "sum", CallPattern("put_places", Wildcard("g"), Wildcard("places", when=_is_of_pool)), axes=Wildcard("axes")
    )
)
def _sum_of_put(found: Match) -> Node | None:
    """Sum the gradients themselves: every one is put somewhere in its plane, so the sum over the plane is theirs."""
    g = found["g"].type
    if (
        not isinstance(g, Spec)
        or not set(range(2, g.ndim)) <= set(found["axes"])
        or isinstance(found["g"], ConstantNode)
    ):
        return None
    return found.apply("sum", found["g"], **found.node.attributes)


_NATIVE = ("float32", "float64")


@rewriting(CallPattern("linear", Wildcard("x"), Wildcard("weight"), Wildcard("bias")))
def _linear(found: Match) -> Node | None:
    """Split `x weight^T + bias`: the sum can join the activation that follows."""
    x, weight = found["x"], found["weight"]
    if not isinstance(x.type, Spec) or x.type.dtype.name not in _NATIVE:
        return None
    turned = found.apply("swapaxes", weight, first=0, second=1)
    return found.apply("add", found.apply("matmul", x, turned), found["bias"])


def expand(graph: Graph) -> Graph:
    """Take `linear` apart into a product and a sum."""
    return apply_rewrites(graph, (_linear,))
