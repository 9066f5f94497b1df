"""Places that hold values and can change on a path: a variable, an item, an attribute, a list as a whole."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .frozen import freeze, same
from .heap import Changes, Container, Heap
from .plan import MISSING

__all__ = ["WHOLE", "Slot", "Variables", "changed_slots", "read", "write"]

#: The key for all that a list or a set holds.
WHOLE = "<content>"


class Variables(dict[Any, Any]):
    """The variables of a function: one that is missing on a path is simply not assigned there.

    Attributes:
        default: What a missing one stands for.
    """

    __slots__ = ("default",)

    def __init__(self, default: Any = None) -> None:
        super().__init__()
        self.default = default or (lambda key: MISSING)

    def copy(self) -> "Variables":
        """The same variables."""
        result = Variables(self.default)
        result.update(self)
        return result


class Slot(NamedTuple):
    """One place; the container is known by identity."""

    container: Container
    key: Any

    def identity(self) -> tuple[int, Any]:
        """What tells it from other slots."""
        return id(self.container), self.key


def read(slot: Slot) -> Any:
    """What stands there now, frozen."""
    container, key = slot
    if key is WHOLE:
        return frozenset(container) if isinstance(container, set) else freeze(container, content=True)
    return _item(container, key)


def _item(container: Container, key: Any) -> Any:
    assert isinstance(container, dict)
    if key in container:
        return freeze(container[key])
    return container.default(key) if isinstance(container, Variables) else MISSING


def write(heap: Heap, slot: Slot, value: Any) -> None:
    """Nothing; the value stands there from now on."""
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


def changed_slots(paths: Iterable[Changes]) -> dict[tuple[int, Any], Slot]:
    """The places that hold something else after one of the paths."""
    found: dict[tuple[int, Any], Slot] = {}
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


def _same_value(a: Any, b: Any) -> bool:
    return a is b or same(freeze(a), freeze(b))
