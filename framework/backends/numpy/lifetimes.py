"""Who uses whose memory last: views and tuples keep alive what they look at."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...ir import Apply, Node, TupleType

__all__ = ["Lifetimes", "Root"]

#: A node that has memory of its own, and which of its outputs.
Root: TypeAlias = tuple[Node, int]


class Lifetimes:
    """The place in the order at which each node's memory is read for the last time.

    Args:
        order: The applications in the order in which they are computed.
        result: What is returned: alive to the end.
        is_view: Whether the result of an application may lie in the memory of its arguments.
    """

    def __init__(self, order: Sequence[Apply], result: Node, is_view: Callable[[Apply], bool]) -> None:
        self._roots: dict[Node, tuple[Root, ...]] = {}
        self._last: dict[Root, int] = {}
        self.end = len(order)
        for place, node in enumerate(order):
            # The value of an assigned weight is written at the very end.
            last = self.end if node.applies("assign") else place
            for x in node.arguments:
                for root in self.roots(x):
                    self._last[root] = max(last, self._last.get(root, -1))
            if node.applies("tuple_getitem"):
                self._roots[node] = self._part(node)
            elif is_view(node):
                held = node.arguments[:1] if node.applies("depend") else node.arguments
                seen = [root for x in held for root in self.roots(x)]
                self._roots[node] = tuple(dict.fromkeys([*self.roots(node), *seen]))
        for root in self.roots(result):
            self._last[root] = self.end

    def _part(self, node: Apply) -> tuple[Root, ...]:
        whole = node.arguments[0]
        own = (whole, node.attributes["index"])
        known = self.roots(whole)
        others = [root for root in known if root[0] is not whole]
        return tuple(dict.fromkeys([own, *others]))

    def roots(self, node: Node) -> tuple[Root, ...]:
        """The memory that the node may lie in."""
        if node in self._roots:
            return self._roots[node]
        count = len(node.type.elements) if isinstance(node.type, TupleType) else 1
        return tuple((node, index) for index in range(count))

    def dies(self, node: Node, place: int) -> bool:
        """Whether nobody reads the memory of the node after this place."""
        return all(self._last.get(root, -1) <= place for root in self.roots(node))
