"""The way back: pending nodes are pulled back, the latest first, until none is left.

Every node has a number, larger than those of the nodes before it. The way back takes the pending node of the largest
number: all who used its outputs have been visited then, so its gradient is complete. The rules are primitives on
tensors; with `create_graph` they are recorded like any others, which is all that derivatives of higher order need.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..context import CAPTURE, PULLING
from ..node import Node
from ..tensor import Tensor, wrap
from .hooks import apply_hooks
from .places import Place, place_of
from .sums import Sums

__all__ = ["WayBack"]


class WayBack:
    """One backward pass.

    Args:
        create_graph: Whether the pass itself is recorded.
        targets: Where gradients are wanted, and the nodes that lead there; None for the leaves.

    Attributes:
        leaves: The tensors that gradients have arrived at, by place.
    """

    __slots__ = ("_heap", "_is_eager", "_needed", "_pending", "_targets", "create_graph", "leaves", "sums")

    def __init__(self, create_graph: bool, targets: set[Place] | None = None, needed: set[Node] | None = None) -> None:
        self.create_graph = create_graph
        self.sums = Sums(create_graph)
        self.leaves: dict[Place, Tensor] = {}
        self._heap: list[tuple[int, Node]] = []
        self._pending: set[int] = set()
        self._targets = targets
        self._needed = needed
        self._is_eager = not create_graph and CAPTURE.get() is None

    def deliver(self, x: Tensor, gradient: Tensor, is_fresh: bool = False) -> None:
        """Nothing; the gradient is collected, and the node that made `x` waits for its turn."""
        node = x._node
        place: Place = id(x) if node is None else (node.order, x._index)
        self.sums.add(place, gradient, is_fresh)
        if node is None or (self._targets is not None and place in self._targets):
            self.leaves[place] = x
        elif node.order not in self._pending:
            self._pending.add(node.order)
            heappush(self._heap, (-node.order, node))

    def run(self, keep: bool) -> None:
        """Nothing; every pending node is pulled back, and freed unless it is to be kept."""
        token = PULLING.set(True)
        try:
            while self._heap:
                node = heappop(self._heap)[1]
                self._visit(node)
                if not keep:
                    node.free()
        finally:
            PULLING.reset(token)

    def complete(self, place: Place) -> Tensor | None:
        """The finished gradient of a leaf or target, after its hooks."""
        gradient = self.sums.totals.get(place)
        if gradient is None:
            return None
        x = self.leaves[place]
        hooks = x._hooks if x._node is None else (x._node.hooks or {}).get(x._index)
        return apply_hooks(hooks, gradient) if hooks else gradient

    def _visit(self, node: Node) -> None:
        """Nothing; the complete gradient of a node has been handed on to its arguments."""
        g = self._collected(node) if node.hooks or node.size > 1 else self.sums.totals.pop((node.order, 0))
        inputs = node.saved_inputs()
        if self._targets is None:
            needs = [isinstance(x, Tensor) and x.requires_grad for x in inputs]
        else:
            needs = [self._wants(x) for x in inputs]
        pulled: Iterable[_Delivery] | None = None
        if self._is_eager and node.eager_vjp is not None and g.__fallback__ is None:
            pulled = _pulled_eagerly(node, inputs, needs, g._data)
        for x, gradient, is_fresh in _pulled(node, inputs, needs, g) if pulled is None else pulled:
            self.deliver(x, gradient, is_fresh)

    def _collected(self, node: Node) -> Any:  # a tensor, or a list of tensors and None
        """The complete gradient of the node's output, after its hooks; of several outputs a list."""
        totals = self.sums.totals
        collected = [totals.pop((node.order, index), None) for index in range(node.size)]
        for index, hooks in (node.hooks or {}).items():
            gradient = collected[index]
            if gradient is not None:
                collected[index] = apply_hooks(hooks, gradient)
        return collected[0] if node.size == 1 else collected

    def _wants(self, x: Any) -> bool:
        """Whether a gradient of this argument is needed to get to the targets."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        return x._node in self._needed or place_of(x) in self._targets  # type: ignore[operator]


#: An argument of a node, its gradient, and whether nobody else holds that array.
_Delivery = tuple[Tensor, Tensor, bool]


def _pulled(node: Node, inputs: tuple[Any, ...], needs: Sequence[bool], g: Any) -> Iterator[_Delivery]:
    """The gradients of the arguments by the rules on tensors."""
    given = (g,) if node.size == 1 else g
    held = {id(x._data) for x in (*given, *inputs) if isinstance(x, Tensor) and x.__fallback__ is None}
    held.add(id(node.outputs))
    for x, need, gradient in zip(inputs, needs, node.primitive.pull_back(node, inputs, needs, g), strict=True):
        if not need or gradient is None:
            continue
        if gradient.__fallback__ is not None:
            yield x, gradient, False
            continue
        array = gradient._data
        yield x, gradient, _is_own(array) and id(array) not in held
        held.add(id(array))


def _pulled_eagerly(node: Node, inputs: tuple[Any, ...], needs: Sequence[bool], g: Any) -> list[_Delivery] | None:
    """The gradients of the arguments by the rule on arrays; None where it leaves them to the other rules."""
    arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    pulled = node.eager_vjp(needs, g, node.outputs, *arrays, **node.attributes)
    if pulled is NotImplemented:
        return None
    held = {id(g), id(node.outputs), *map(id, arrays)}
    deliveries = []
    for x, need, found in zip(inputs, needs, pulled, strict=True):
        if need and found is not None:
            array = found if type(found) is np.ndarray else np.asarray(found)
            deliveries.append((x, wrap(array), _is_own(array) and id(array) not in held))
            held.add(id(array))
    return deliveries


def _is_own(array: np.ndarray[Any, Any]) -> bool:
    """Whether it is no view, and may be written to."""
    return array.base is None and array.flags.writeable
