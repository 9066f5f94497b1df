"""What interpreted code changes on one of several paths: kept apart per path, taken back, and brought again.

Variables, lists, dicts, attributes and the values of weights all live in dicts, lists and sets. Before one of them is
changed it is `touch`ed: the layer of the running path keeps its former content. When a path ends its changes are taken
away (`suspend`), so that the other path starts from the same state; `resume` brings them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

__all__ = ["Changes", "Container", "Heap", "compose"]

# The contents are the values of the user's program: anything.
Container: TypeAlias = dict[Any, Any] | list[Any] | set[Any]


class Layer:
    """The containers that one path has changed, with their former content, and those it has made."""

    __slots__ = ("before", "fresh")

    def __init__(self) -> None:
        self.before: dict[int, tuple[Container, Container]] = {}
        self.fresh: dict[int, Container] = {}


class Changes:
    """A layer that is not running, with the content that its containers have there."""

    __slots__ = ("after", "layer")

    def __init__(self, layer: Layer, after: dict[int, Container]) -> None:
        self.layer, self.after = layer, after

    def containers(self) -> Iterator[tuple[Container, Container, Container]]:
        """Every changed container that others can know, its content before and after."""
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
        """Nothing; to be called before a container is changed."""
        if self.layers:
            layer = self.layers[-1]
            key = id(container)
            if key not in layer.before and key not in layer.fresh:
                layer.before[key] = container, container.copy()

    def created(self, container: Container) -> None:
        """Nothing; the container is new on this path."""
        if self.layers:
            self.layers[-1].fresh[id(container)] = container

    def push(self) -> None:
        """Nothing; a path begins."""
        self.layers.append(Layer())

    def suspend(self) -> Changes:
        """What the innermost path has changed; it is taken back."""
        layer = self.layers.pop()
        after = {}
        for key, (container, before) in layer.before.items():
            after[key] = container.copy()
            _fill(container, before)
        return Changes(layer, after)

    def resume(self, changes: Changes) -> None:
        """Nothing; a suspended path goes on."""
        layer = Layer()
        layer.before, layer.fresh = dict(changes.layer.before), dict(changes.layer.fresh)
        self.layers.append(layer)
        for key, (container, _) in layer.before.items():
            _fill(container, changes.after[key])

    def keep(self) -> None:
        """Nothing; what the innermost path has changed belongs to the one around it."""
        layer = self.layers.pop()
        if self.layers:
            outer = self.layers[-1]
            for key, entry in layer.before.items():
                if key not in outer.fresh:
                    outer.before.setdefault(key, entry)
            outer.fresh.update(layer.fresh)

    def discard(self, depth: int) -> None:
        """Nothing; paths are taken back until there are `depth` of them."""
        while len(self.layers) > depth:
            self.suspend()

    @contextmanager
    def resumed(self, changes: Changes) -> Iterator[None]:
        """A block in which the state is that of a suspended path; what changes inside is forgotten."""
        depth = len(self.layers)
        self.resume(changes)
        try:
            yield
        finally:
            self.discard(depth)


def compose(outer: Changes, inner: Changes) -> Changes:
    """The changes of a path that went through `outer` and then through `inner`."""
    layer = Layer()
    layer.before = {**inner.layer.before, **outer.layer.before}
    layer.fresh = {**outer.layer.fresh, **inner.layer.fresh}
    return Changes(layer, {**outer.after, **inner.after})


def _fill(container: Container, content: Container) -> None:
    if isinstance(container, list):
        container[:] = content
        return
    container.clear()
    container.update(content)
