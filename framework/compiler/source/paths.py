"""Paths of interpreted code: what each changes (`Heap`), where changed values stand (`Slot`), and how it ends (`Flow`).

Variables, lists, dicts, attributes and the values of weights all live in dicts, lists and sets. Before one of them is
changed it is `touch`ed: the layer of the running path keeps its former content. When a path ends its changes are taken
away (`suspend`), so that the other path starts from the same state; `resume` brings them again.

A condition on a traced value splits the program: each branch is a graph of its own, and may end differently. A
`PathSplit` holds the open ends. Whoever encloses the piece closes them: ends that go on to the next line are joined;
those that return wait for the end of the function; those that break or continue for their loop.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ...ir import Graph, Node, Where
from .value_plans import MISSING, freeze, same

__all__ = [
    "AGAIN",
    "BREAK",
    "CONTINUE",
    "NEXT",
    "WHOLE",
    "Container",
    "Dead",
    "End",
    "Flow",
    "Heap",
    "Jump",
    "PathChanges",
    "PathSplit",
    "Raise",
    "Return",
    "Slot",
    "Variables",
    "changed_slots",
    "compose",
    "read",
    "write",
]

# The contents are the values of the user's program, the keys names or what a dict is indexed by: anything.
Container: TypeAlias = dict[Any, object] | list[object] | set[object]


class Layer:
    """The containers that one path has changed, with their former content, and those it has made."""

    __slots__ = ("before", "fresh")

    def __init__(self) -> None:
        self.before: dict[int, tuple[Container, Container]] = {}
        self.fresh: dict[int, Container] = {}


class PathChanges:
    """A layer that is not running, with the content that its containers have there."""

    __slots__ = ("after", "layer")

    def __init__(self, layer: Layer, after: dict[int, Container]) -> None:
        self.layer, self.after = layer, after

    def containers(self) -> Iterator[tuple[Container, Container, Container]]:
        """Return every changed container that others can know, its content before and after."""
        for key, (container, before) in self.layer.before.items():
            if key not in self.layer.fresh:
                yield container, before, self.after[key]


class Heap:
    """The layers of the running path, outermost first.

    Attributes:
        layers: None of them where no path has split: then nothing has to be kept.
    """

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def touch(self, container: Container) -> None:
        """Save the content of a container; call this before changing it."""
        if self.layers:
            layer = self.layers[-1]
            key = id(container)
            if key not in layer.before and key not in layer.fresh:
                layer.before[key] = container, container.copy()

    def created(self, container: Container) -> None:
        """Note that the container is new on this path."""
        if self.layers:
            self.layers[-1].fresh[id(container)] = container

    def push(self) -> None:
        """Begin a path."""
        self.layers.append(Layer())

    def suspend(self) -> PathChanges:
        """Return what the innermost path has changed; it is taken back."""
        layer = self.layers.pop()
        after = {}
        for key, (container, before) in layer.before.items():
            after[key] = container.copy()
            _fill(container, before)
        return PathChanges(layer, after)

    def resume(self, changes: PathChanges) -> None:
        """Continue a suspended path."""
        layer = Layer()
        layer.before, layer.fresh = dict(changes.layer.before), dict(changes.layer.fresh)
        self.layers.append(layer)
        for key, (container, _) in layer.before.items():
            _fill(container, changes.after[key])

    def keep(self) -> None:
        """Hand the changes of the innermost path to the one around it."""
        layer = self.layers.pop()
        if self.layers:
            outer = self.layers[-1]
            for key, entry in layer.before.items():
                if key not in outer.fresh:
                    outer.before.setdefault(key, entry)
            outer.fresh.update(layer.fresh)

    def discard(self, depth: int) -> None:
        """Take paths back until there are `depth` of them."""
        while len(self.layers) > depth:
            self.suspend()

    @contextmanager
    def resumed(self, changes: PathChanges) -> Iterator[None]:
        """Open a block in which the state is that of a suspended path; what changes inside is forgotten."""
        depth = len(self.layers)
        self.resume(changes)
        try:
            yield
        finally:
            self.discard(depth)


def compose(outer: PathChanges, inner: PathChanges) -> PathChanges:
    """Return the changes of a path that went through `outer` and then through `inner`."""
    layer = Layer()
    layer.before = {**inner.layer.before, **outer.layer.before}
    layer.fresh = {**outer.layer.fresh, **inner.layer.fresh}
    return PathChanges(layer, {**outer.after, **inner.after})


def _fill(container: Container, content: Any) -> None:  # of the container's own kind
    if isinstance(container, list):
        container[:] = content
        return
    container.clear()
    container.update(content)


#: The key for all that a list or a set holds.
WHOLE = "<content>"


class Variables(dict[Any, object]):
    """The variables of a function: one that is missing on a path is simply not assigned there.

    Attributes:
        default: What a missing one stands for.
    """

    __slots__ = ("default",)

    def __init__(self, default: Callable[[Any], object] | None = None) -> None:
        super().__init__()
        self.default = default or (lambda key: MISSING)

    def copy(self) -> "Variables":
        """Return the same variables."""
        result = Variables(self.default)
        result.update(self)
        return result


class Slot(NamedTuple):
    """One place; the container is known by identity."""

    container: Container
    key: Any  # as in `Container`

    def identity(self) -> tuple[int, object]:
        """Return what tells it from other slots."""
        return id(self.container), self.key


def read(slot: Slot) -> object:
    """Return what stands there now, frozen."""
    container, key = slot
    if key is WHOLE:
        return frozenset(container) if isinstance(container, set) else freeze(container, content=True)
    return _item(container, key)


def _item(container: Container, key: object) -> object:
    assert isinstance(container, dict)
    if key in container:
        return freeze(container[key])
    return container.default(key) if isinstance(container, Variables) else MISSING


def write(heap: Heap, slot: Slot, value: Any) -> None:
    """Store the value in the slot."""
    container, key = slot
    heap.touch(container)
    if key is not WHOLE:
        assert isinstance(container, dict)
        container[key] = value
    elif isinstance(container, list):
        container[:] = value
    else:
        container.clear()
        container.update(value)


def changed_slots(paths: Iterable[PathChanges]) -> dict[tuple[int, object], Slot]:
    """Return the places that hold something else after one of the paths."""
    found: dict[tuple[int, object], Slot] = {}
    for changes in paths:
        for container, before, after in changes.containers():
            for slot in _differences(container, before, after):
                found.setdefault(slot.identity(), slot)
    return found


def _differences(container: Container, before: Container, after: Container) -> Iterable[Slot]:
    if isinstance(container, dict):
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        for key in {**before, **after}:
            if key not in before or key not in after or not _same_value(before[key], after[key]):
                yield Slot(container, key)
    elif isinstance(container, set):
        if before != after:
            yield Slot(container, WHOLE)
    elif len(before) != len(after) or not all(map(_same_value, before, after)):
        yield Slot(container, WHOLE)


def _same_value(a: object, b: object) -> bool:
    return a is b or same(freeze(a), freeze(b))


Dead: TypeAlias = tuple[dict[Any, object] | None, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Plain:
    """A way to end that carries nothing."""

    name: str


NEXT = Plain("next")
BREAK = Plain("break")
CONTINUE = Plain("continue")
#: The next round of the innermost loop that is being captured.
AGAIN = Plain("again")


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """The function ends with this value, which may be anything of the user's program."""

    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Raise:
    """The run ends with this exception; None where a branch only waits to learn what a recursion returns."""

    error: BaseException | None


@dataclass(slots=True, eq=False)
class Jump:
    """A graph that ends by calling another one; written into it when the type of the result is known.

    Attributes:
        graph: The one that calls.
        condition: Chooses between the two targets; None if there is one.
        targets: The graphs called.
        arguments: What they are called with.
        where: The line.
    """

    graph: Graph
    condition: Node | None
    targets: tuple[Graph, ...]
    arguments: tuple[Node, ...]
    where: Where


@dataclass(slots=True, eq=False)
class End:
    """One open end.

    Attributes:
        flow: What it wants to do.
        graph: The graph that it stands in, still without output.
        changes: What this path has changed since the split.
    """

    flow: "Plain | Return | Raise"
    graph: Graph
    changes: PathChanges


@dataclass(slots=True, eq=False)
class PathSplit:
    """Code that ends in several ways.

    Attributes:
        start: The call by which it all begins, in the graph where the split happened.
        jumps: Calls between the graphs inside.
        ends: The open ends.
        dead: Variables, and those names of them that nobody asks for afterwards.
    """

    start: Jump
    jumps: list[Jump]
    ends: list[End]
    dead: Dead = (None, frozenset())


Flow: TypeAlias = Plain | Return | Raise | PathSplit
