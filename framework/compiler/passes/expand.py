"""Composite primitives taken apart where their parts can be fused with what stands around them."""

from ...ir import Graph, Node
from ...shape import Spec
from ..pattern import Any, Call, Match
from ..rewrite import apply_rewrites, rewriting

__all__ = ["expand"]

_NATIVE = ("float32", "float64")


@rewriting(Call("linear", Any("x"), Any("weight"), Any("bias")))
def _linear(found: Match) -> Node | None:
    """`x weight^T + bias`: the sum can join the activation that follows."""
    x, weight = found["x"], found["weight"]
    if not isinstance(x.type, Spec) or x.type.dtype.name not in _NATIVE:
        return None
    turned = found.apply("swapaxes", weight, first=0, second=1)
    return found.apply("add", found.apply("matmul", x, turned), found["bias"])


def expand(graph: Graph) -> Graph:
    """In: any graph. Out: `linear` as a product and a sum."""
    return apply_rewrites(graph, (_linear,))
