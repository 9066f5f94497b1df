"""Places in the recorded graph: what a gradient is collected under, and which nodes lie between results and targets."""

from collections.abc import Sequence
from typing import TypeAlias

from ..node import Node
from ..tensor import Tensor

__all__ = ["Place", "leading_to", "place_of"]

#: A leaf itself (by identity), or an output of a node.
Place: TypeAlias = int | tuple[int, int]


def place_of(x: Tensor) -> Place:
    """Where a gradient of `x` is collected."""
    return id(x) if x._node is None else (x._node.order, x._index)


def leading_to(roots: Sequence[Tensor], targets: set[Place]) -> set[Node]:
    """The nodes between the targets and the roots: the way back need visit no others."""
    seen: set[Node] = set()
    stack = [root._node for root in roots if root._node is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        inputs = node.inputs if node.inputs is not None else node.saved_inputs()  # which says why they are gone
        parents = (x for x in inputs if isinstance(x, Tensor) and place_of(x) not in targets)
        stack.extend(x._node for x in parents if x._node is not None)
    needed: set[Node] = set()
    for node in sorted(seen, reverse=True):
        for x in node.inputs or ():
            if isinstance(x, Tensor) and x.requires_grad and (x._node in needed or place_of(x) in targets):
                needed.add(node)
                break
    return needed
