"""Pooling moved in front of the activation, so that fewer elements are activated.

    max_pool(relu(x))                               ->  relu(max_pool(x))
    relu_gradient(put_places(g, places), relu(x))   ->  put_places(relu_gradient(g, pooled), places)
    sum(put_places(g, places)) over the plane       ->  sum(g) over the plane

The values are the same: relu keeps order, and NaN. The places are the same but in windows without a positive element,
where the gradient is 0 wherever it is put; therefore both rewrites are made together, or none.
"""

from ...ir import Apply, Constant, Graph, Node
from ...ir.control import tuple_getitem
from ...ir.visit import users
from ...primitive import PRIMITIVES
from ...shape import Spec
from ..pattern import Any, Call, Match
from ..rebuild import rebuild
from ..rewrite import apply_rewrites, rewriting

__all__ = ["pool_first"]


def pool_first(graph: Graph) -> Graph:
    """In: any graph. Out: maximum pooling before relu, forward and backward."""
    used = users(graph)
    pools = {node for nodes in used.values() for node in nodes if _can_move(node, used, graph)}
    return apply_rewrites(rebuild(graph, _Moving(pools).rule) if pools else graph, (_sum_of_put,))


def _can_move(node: Apply, used: dict[Node, list[Apply]], graph: Graph) -> bool:
    """Whether the node pools what a relu gives, and places and activated images serve nothing else."""
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
    """Whether the user is the gradient of the relu, of what was put back by this pool's places."""
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
        """Pools read what the relu reads; their first part is activated; gradients pass the relu before the pool."""
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


@rewriting(Call("sum", Call("put_places", Any("g"), Any("places", when=_is_of_pool)), axes=Any("axes")))
def _sum_of_put(found: Match) -> Node | None:
    """Every gradient is put somewhere in its plane, so the sum over the plane is theirs."""
    g = found["g"].type
    if not isinstance(g, Spec) or not set(range(2, g.ndim)) <= set(found["axes"]) or isinstance(found["g"], Constant):
        return None
    return found.apply("sum", found["g"], **found.node.attributes)
