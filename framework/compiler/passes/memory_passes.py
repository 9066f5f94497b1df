"""Passes for memory: an order with little memory alive, and values of marked segments recomputed in backward.

A list scheduler. Ready are the applications whose arguments have been computed; of these the one is taken that leaves
the fewest bytes behind: what it allocates, less what it is the last to read. Of equals the one that came first
stays first. What has an effect keeps its place among all that have one.

Reference:
    Sethi and Ullman 1970 (orders of evaluation); Chen et al. 2018, arXiv:1802.04799 (memory in graph compilers). The
    greedy choice is ours: the best order is NP-complete (Sethi 1975).

    x -> in -> a -> b -> out -> y            forward: a and b are let go
    x -> depend(x, g) -> a' -> b'            backward: from the gradient g of y on, a' and b' stand for a and b

`framework.recompute(fn)` marks what goes in and comes out when it is captured; the rule of "out" marks the gradient
that comes back. Copied is what depends on "in" otherwise than over "out", as far as the way back asks for it. Random
keys and other effects are not copied, so a mask is drawn from the same key. A segment inside another is copied with it
and kept from then on.

The pass comes last: nothing that shares equal values may follow it.

Reference:
    Chen et al. 2016, arXiv:1604.06174.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from ...ir import Abstract, Apply, ConstantNode, Graph, Node, TupleType
from ...ir.control_ops import depend
from ...ir.visit import order
from ...specs import Spec
from ..rewrite import rebuild
from .structural_passes import is_pure

__all__ = ["has_effect", "recompute", "schedule"]

#: Whether the result of an application lies in the memory of its arguments.
IsView = Callable[[Apply], bool]


def schedule(order: Sequence[Apply], result: Node, is_view: IsView) -> tuple[Apply, ...]:
    """Return the same applications, each still after what it uses, effects among themselves as they were.

    Args:
        order: All that is computed, in an order that works.
        result: What is returned: alive to the end.
        is_view: Whether an application allocates nothing, its result keeping its arguments alive.
    """
    return _Scheduler(order, _ArrayLifetimes(order, result, is_view)).run()


class _ArrayLifetimes:
    """Who lies in whose memory, and who still has to read it; applications go by their place in the order.

    Attributes:
        allocated: Bytes that each application allocates.
        roots: The arrays that each application reads and makes, by number.
        size: Bytes of each array; 0 for what is returned, which is never given back.
        readers: The applications that still have to read (or make) each array.
    """

    def __init__(self, order: Sequence[Apply], result: Node, is_view: IsView) -> None:
        self.places: dict[Node, int] = {node: place for place, node in enumerate(order)}
        self.size: list[int] = []
        self.readers: list[set[int]] = []
        self.allocated: list[int] = []
        self.roots: list[tuple[int, ...]] = []
        self._lies_in: dict[Node, tuple[int, ...]] = {}
        for place, node in enumerate(order):
            read = {root for x in node.inputs for root in self._lies_in.get(x, ())}
            made = () if is_view(node) else self._made(node)
            self.allocated.append(sum(self.size[root] for root in made))
            self._lies_in[node] = made or self._seen(node, read)
            self.roots.append((*made, *read))
            for root in self.roots[-1]:
                self.readers[root].add(place)
        kept = [result, *(x for node in order if node.applies("assign") for x in node.arguments)]
        for root in (root for x in kept for root in self._lies_in.get(x, ())):
            self.size[root] = 0  # alive to the end; assigned values are written then

    def _made(self, node: Apply) -> tuple[int, ...]:
        """Return new arrays, one for each output."""
        first = len(self.size)
        self.size += [_bytes_of(t) for t in (node.type.elements if isinstance(node.type, TupleType) else [node.type])]
        self.readers += [set() for _ in self.size[first:]]
        return tuple(range(first, len(self.size)))

    def _seen(self, node: Apply, read: set[int]) -> tuple[int, ...]:
        """Return the arrays that a view may lie in: of `depend` those of what it passes on, of a part its own."""
        whole = self._lies_in.get(node.inputs[1], ()) if len(node.inputs) > 1 else ()
        if node.applies("depend"):
            return whole
        if node.applies("tuple_getitem") and isinstance(node.inputs[1].type, TupleType):
            return whole[node.attributes["index"] :][:1] if len(whole) == len(node.inputs[1].type.elements) else whole
        return tuple(read)

    def freed_by(self, place: int) -> int:
        """Return the bytes given back when this application is computed next."""
        return sum(self.size[root] for root in self.roots[place] if self.readers[root] == {place})

    def read(self, place: int) -> None:
        """Note that this application has been computed."""
        for root in self.roots[place]:
            self.readers[root].discard(place)


class _Scheduler:
    """One order in the making. Keys of the heap go stale when an application becomes a last reader; then it is pushed
    once more, with the smaller key."""

    def __init__(self, order: Sequence[Apply], memory: _ArrayLifetimes) -> None:
        self._order, self._memory = order, memory
        self._waits = [0] * len(order)
        self._followers: list[list[int]] = [[] for _ in order]
        for place, before in enumerate(_dependences(order, memory.places)):
            self._waits[place] = len(before)
            for earlier in before:
                self._followers[earlier].append(place)
        self._done = [False] * len(order)

    def run(self) -> tuple[Apply, ...]:
        """Return the new order."""
        heap = [self._key(place) for place, count in enumerate(self._waits) if count == 0]
        heapify(heap)
        found = []
        while heap:
            place = heappop(heap)[1]
            if self._done[place]:
                continue
            self._done[place] = True
            found.append(self._order[place])
            for again in (*self._last_readers(place), *self._made_ready(place)):
                heappush(heap, self._key(again))
        return tuple(found)

    def _key(self, place: int) -> tuple[int, int]:
        return self._memory.allocated[place] - self._memory.freed_by(place), place

    def _made_ready(self, place: int) -> list[int]:
        ready = []
        for follower in self._followers[place]:
            self._waits[follower] -= 1
            if self._waits[follower] == 0:
                ready.append(follower)
        return ready

    def _last_readers(self, place: int) -> list[int]:
        """Return the ready applications that are now the last to read something."""
        self._memory.read(place)
        left = [self._memory.readers[root] for root in self._memory.roots[place]]
        alone = {next(iter(readers)) for readers in left if len(readers) == 1}
        return [other for other in alone if self._waits[other] == 0 and not self._done[other]]


def _dependences(order: Sequence[Apply], places: dict[Node, int]) -> list[set[int]]:
    """Return for each application what must be computed before it: arguments, and for an effect the one before."""
    found = []
    effect: int | None = None
    for place, node in enumerate(order):
        before = {places[x] for x in node.inputs if x in places}
        if has_effect(node):
            if effect is not None:
                before.add(effect)
            effect = place
        found.append(before)
    return found


def has_effect(node: Apply) -> bool:
    """Return whether applying it does something besides its result, or may."""
    function = node.inputs[0]
    if not isinstance(function, ConstantNode):
        return True
    return not is_pure(function.value) and not hasattr(function.value, "parameters")


def _bytes_of(type: Abstract) -> int:
    if isinstance(type, TupleType):
        return sum(_bytes_of(element) for element in type.elements)
    if isinstance(type, Spec) and all(isinstance(length, int) for length in type.shape):
        return type.size * type.dtype.itemsize
    return 0


def recompute(graph: Graph) -> Graph:
    """Remove the segments of an inlined graph; backward computes their values again."""
    if not any(node.applies("segment") for node in order(graph)):
        return rebuild(graph, _unmarked)
    graph = rebuild(graph, lambda node, inputs, home: None)  # a copy, which is changed below
    numbers = dict.fromkeys(node.attributes["number"] for node in order(graph) if node.applies("segment"))
    for number in numbers:
        _Segment(graph, number).copy_for_the_way_back()
    return rebuild(graph, _unmarked)


def _unmarked(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    return inputs[1] if node.applies("segment") else None


class _Segment:
    """One segment of a graph that is being changed.

    Args:
        graph: The graph; control flow inside it stays as it is.
        number: Of the segment.
    """

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        self._order = order(graph)
        sides: dict[str, list[Apply]] = {"in": [], "out": [], "back": []}
        for node in self._order:
            if node.applies("segment") and node.attributes["number"] == number:
                sides[node.attributes["side"]].append(node)
        self._entries = sides["in"]
        inside = self._below(sides["in"], sides["out"])
        # In a derivative of second order a gradient may itself be made of values inside: it comes too late.
        gradients = [node for node in sides["back"] if node not in inside]
        after = self._below(gradients, (), itself=False)
        self._triggers = [node for node in gradients if node not in after]
        self._later = self._below(self._triggers, ())
        self._inside = inside - self._later
        self._copies: dict[Node, Node] = {}

    def _below(self, starts: Sequence[Apply], ends: Sequence[Apply], *, itself: bool = True) -> set[Node]:
        """Return what depends on the starts, other than through the ends."""
        roots, stops = set(starts), set(ends)
        found: set[Node] = set()
        for node in self._order:
            if node not in stops and ((itself and node in roots) or any(x in found or x in roots for x in node.inputs)):
                found.add(node)
        return found

    def copy_for_the_way_back(self) -> None:
        """Let what follows the incoming gradient use copies, which are computed when that is there."""
        if any(entry.inputs[1] in self._later for entry in self._entries):
            return  # the way back of a way back: what goes in is not there before
        for node in self._order:
            if node in self._later and not _keeps_originals(node):
                node.inputs[:] = [self._copy(x) for x in node.inputs]

    def _copy(self, root: Node) -> Node:
        """Return what stands for the node on the way back; no recursion, segments may be long."""
        stack = [root]
        while stack:
            node = stack[-1]
            wanted = self._sources(node)
            missing = [x for x in wanted if x not in self._copies]
            if missing:
                stack.extend(missing)
                continue
            self._copies.setdefault(node, self._made(node))
            stack.pop()
        return self._copies[root]

    def _sources(self, node: Node) -> list[Node]:
        """Return what the copy of a node is made of; nothing for one that is not copied."""
        if node not in self._inside or not isinstance(node, Apply) or node in self._entries:
            return []
        if node.applies("observe"):
            return [node.inputs[1]]
        return [] if _is_kept(node) else node.inputs

    def _made(self, node: Node) -> Node:
        if node in self._entries:
            assert isinstance(node, Apply)
            return self._graph.apply(depend, node.inputs[1], *self._triggers, where=node.where)
        sources = self._sources(node)
        if not sources or not isinstance(node, Apply):
            return node
        if node.applies("observe"):  # the hook saw it the first time
            return self._copies[node.inputs[1]]
        return Apply(self._graph, [self._copies[x] for x in sources], node.type, node.attributes, node.where)


def _is_kept(node: Apply) -> bool:
    """Return whether the node has an effect or calls a graph, and so is not applied twice."""
    function = node.inputs[0]
    return has_effect(node) or (isinstance(function, ConstantNode) and isinstance(function.value, Graph))


def _keeps_originals(node: Apply) -> bool:
    return has_effect(node) or node.applies("make_tuple") or node.applies("depend")
