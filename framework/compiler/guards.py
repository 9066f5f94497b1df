"""Guards: what Python held outside of the arguments when a function was captured, to be asked again at every call.

A captured graph has the values of globals, closures and attributes in it. Each of them that is a simple value (a bool,
a number, a word, None, or a tuple of such) becomes a guard; where one does not hold the function is captured again.
Other objects are guarded by identity where the capture says so.

Attributes of cells change by way of `Cell.__setattr__`, which counts (`hooks.CHANGES`): as long as the count stands
still their guards are not looked at. All others are asked by one generated function.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from keyword import iskeyword
from types import CellType
from typing import Any, Literal

from ..hooks import CHANGES

__all__ = ["Guard", "GuardSet", "attribute_guard", "closure_guard", "is_simple", "item_guard", "same"]

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()


def is_simple(value: Any) -> bool:
    """Whether a value is one that is compared by type and value."""
    return type(value) in _SIMPLE or (type(value) is tuple and all(is_simple(part) for part in value))


def same(value: Any, expected: Any) -> bool:
    """Whether a guarded value is what it was: simple ones by type and value, others by identity."""
    if value is expected:
        return True
    if type(value) is tuple and type(expected) is tuple and len(value) == len(expected):
        return all(same(a, b) for a, b in zip(value, expected, strict=True))
    return type(value) is type(expected) and type(value) in _SIMPLE and bool(value == expected)


@dataclass(frozen=True, slots=True)
class Guard:
    """One value that was read during the capture.

    Attributes:
        name: As the user would write it, for messages.
        kind: How it is read from its owner: an attribute, an item, or by calling the owner.
        owner: The object, mapping or function.
        key: Name of the attribute, key of the item.
        expected: What was found.
        by_cell: The owner is a cell, whose changes are counted.
    """

    name: str
    kind: Literal["attribute", "item", "call"]
    owner: Any = field(repr=False)
    key: Any
    expected: Any = field(repr=False)
    by_cell: bool = False

    def read(self) -> Any:
        """What stands there now; a mark of its own if nothing does."""
        try:
            if self.kind == "attribute":
                return getattr(self.owner, self.key)
            return self.owner[self.key] if self.kind == "item" else self.owner()
        except (AttributeError, LookupError, ValueError):
            return _MISSING

    def holds(self) -> bool:
        """Whether the value is what it was."""
        return same(self.read(), self.expected)

    def complaint(self) -> str:
        """What differs, in words."""
        found = self.read()
        return f"{self.name} was {self.expected!r}, is {'gone' if found is _MISSING else repr(found)}"


def attribute_guard(name: str, owner: Any, key: str, expected: Any, *, by_cell: bool = False) -> Guard:
    """A guard on `owner.key`."""
    return Guard(name, "attribute", owner, key, expected, by_cell)


def item_guard(name: str, owner: Any, key: Any, expected: Any) -> Guard:
    """A guard on `owner[key]`, for globals and other mappings and lists."""
    return Guard(name, "item", owner, key, expected)


def closure_guard(name: str, cell: CellType, expected: Any) -> Guard:
    """A guard on a variable that a function has from outside."""
    return Guard(name, "attribute", cell, "cell_contents", expected)


class GuardSet:
    """The guards of one captured graph.

    Attributes:
        guards: All of them, each place once.
    """

    __slots__ = ("_ask", "_by_cell", "_stamp", "guards")

    def __init__(self, guards: Iterable[Guard]) -> None:
        unique: dict[Any, Guard] = {}
        for guard in guards:
            unique.setdefault((id(guard.owner), guard.kind, guard.key), guard)
        self.guards = tuple(unique.values())
        self._by_cell = tuple(guard for guard in self.guards if guard.by_cell)
        self._ask = _generate([guard for guard in self.guards if not guard.by_cell])
        self._stamp = CHANGES[0]

    def hold(self) -> bool:
        """Whether every guard holds."""
        if self._stamp != CHANGES[0]:
            stamp = CHANGES[0]
            if not all(guard.holds() for guard in self._by_cell):
                return False
            self._stamp = stamp
        return self._ask is None or self._ask()

    def broken(self) -> Guard | None:
        """The first guard that does not hold."""
        return next((guard for guard in self.guards if not guard.holds()), None)


def _generate(guards: list[Guard]) -> Callable[[], bool] | None:
    """One function that asks all of them, written out: a comparison costs some 40 ns, a method call five times that."""
    if not guards:
        return None
    names: dict[str, Any] = {"same": same}
    tests = []
    for number, guard in enumerate(guards):
        owner, value = f"o{number}", f"v{number}"
        names[owner], names[value] = guard.owner, guard.expected
        names[f"k{number}"] = guard.key
        plain = guard.kind == "attribute" and guard.key.isidentifier() and not iskeyword(guard.key)
        get = f"{owner}.{guard.key}" if plain else f"getattr({owner}, k{number})"
        read = {"attribute": get, "item": f"{owner}[k{number}]", "call": f"{owner}()"}[guard.kind]
        tests.append(f"({read} is {value} or same({read}, {value}))")
    lines = ["def ask():", " try:", f"  return {' and '.join(tests)}"]
    lines += [" except (AttributeError, LookupError, ValueError):", "  return False"]
    exec("\n".join(lines), names)
    ask: Callable[[], bool] = names["ask"]
    return ask
