"""Guards: what Python held outside of the arguments when a function was captured, checked again at every call.

A captured graph has the values of globals, closures and attributes in it. Each of them that is a simple value (a bool,
a number, a word, None, or a tuple of such) becomes a guard; where one does not hold the function is captured again.
Other objects are guarded by identity where the capture says so.

Attributes of cells change by way of `Cell.__setattr__`, which counts (`hooks.CHANGES`): as long as the count stands
still their guards are not looked at. All others are asked by one generated function.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from keyword import iskeyword
from types import CellType, FunctionType, MethodType
from typing import Any, Literal

from ..hooks import CHANGES
from ..tensor import Parameter, Tensor
from .traced import CaptureError

__all__ = ["Guard", "GuardSet", "OutsideValues", "attribute_guard", "closure_guard", "is_simple", "item_guard", "same"]

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()


def is_simple(value: object) -> bool:
    """Return whether a value is one that is compared by type and value."""
    return type(value) in _SIMPLE or (type(value) is tuple and all(is_simple(part) for part in value))


def same(value: object, expected: object) -> bool:
    """Return whether a guarded value is what it was: simple ones by type and value, others by identity."""
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
    owner: Any = field(repr=False)  # read by attribute, item or call
    key: Any  # a name for attributes, whatever the owner takes for items
    expected: object = field(repr=False)
    by_cell: bool = False

    def read(self) -> object:
        """Return what stands there now; a mark of its own if nothing does."""
        try:
            if self.kind == "attribute":
                return getattr(self.owner, self.key)
            return self.owner[self.key] if self.kind == "item" else self.owner()
        except (AttributeError, LookupError, ValueError):
            return _MISSING

    def holds(self) -> bool:
        """Return whether the value is what it was."""
        return same(self.read(), self.expected)

    def complaint(self) -> str:
        """Return what differs, in words."""
        found = self.read()
        return f"{self.name} was {self.expected!r}, is {'gone' if found is _MISSING else repr(found)}"


def attribute_guard(name: str, owner: object, key: str, expected: object, *, by_cell: bool = False) -> Guard:
    """Return a guard on `owner.key`."""
    return Guard(name, "attribute", owner, key, expected, by_cell)


def item_guard(name: str, owner: object, key: object, expected: object) -> Guard:
    """Return a guard on `owner[key]`, for globals and other mappings and lists."""
    return Guard(name, "item", owner, key, expected)


def closure_guard(name: str, cell: CellType, expected: object) -> Guard:
    """Return a guard on a variable that a function has from outside."""
    return Guard(name, "attribute", cell, "cell_contents", expected)


class GuardSet:
    """The guards of one captured graph.

    Attributes:
        guards: All of them, each place once.
    """

    __slots__ = ("_ask", "_by_cell", "_stamp", "guards")

    def __init__(self, guards: Iterable[Guard]) -> None:
        unique: dict[tuple[int, str, object], Guard] = {}
        for guard in guards:
            unique.setdefault((id(guard.owner), guard.kind, guard.key), guard)
        self.guards = tuple(unique.values())
        self._by_cell = tuple(guard for guard in self.guards if guard.by_cell)
        self._ask = _generate([guard for guard in self.guards if not guard.by_cell])
        self._stamp = CHANGES[0]

    def hold(self) -> bool:
        """Return whether every guard holds."""
        if self._stamp != CHANGES[0]:
            stamp = CHANGES[0]
            if not all(guard.holds() for guard in self._by_cell):
                return False
            self._stamp = stamp
        return self._ask is None or self._ask()

    def broken(self) -> Guard | None:
        """Return the first guard that does not hold."""
        return next((guard for guard in self.guards if not guard.holds()), None)


def _generate(guards: list[Guard]) -> Callable[[], bool] | None:
    """Generate one function that checks all of them: a comparison costs some 40 ns, a method call five times that."""
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


class OutsideValues:
    """The simple values that a function can see, and the functions it names.

    Functions are followed through closures and the globals of the module they share, not into libraries.

    Attributes:
        guards: One for every value.
    """

    def __init__(self, fn: Callable[..., object]) -> None:
        self.guards: list[Guard] = []
        self._home: str | None = getattr(fn, "__module__", None)
        seen: set[int] = set()
        pending: list[object] = [fn]
        while pending:
            function = _function_of(pending.pop())
            if function is not None and id(function) not in seen:
                seen.add(id(function))
                pending += self._look_into(function)

    def _look_into(self, function: FunctionType) -> Iterator[object]:
        """Return the functions that this one names; what it names else is guarded."""
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = _contents(cell)
            yield value
            if is_simple(value) or isinstance(value, Tensor):
                self.guards.append(closure_guard(f"variable '{name}' of {function.__qualname__}", cell, value))
                self.guards += version_guard(name, value)
        space = function.__globals__
        for name in code.co_names:
            if name not in space:
                continue
            value = space[name]
            if getattr(value, "__module__", None) == self._home:
                yield value
            if is_simple(value) or isinstance(value, Tensor) or _function_of(value) is not None:
                self.guards += [item_guard(f"global '{name}'", space, name, value), *version_guard(name, value)]
        yield from (constant for constant in code.co_consts if isinstance(constant, FunctionType))

    def check(self) -> None:
        """Raise if a value changed while the function was captured.

        Raises:
            CaptureError: One did.
        """
        for guard in self.guards:
            if not guard.holds():
                raise CaptureError(
                    f"{guard.complaint()} after the function was captured: such a change would happen only once; "
                    f"return the new value, or keep it in a Parameter"
                )


def version_guard(name: str, value: object) -> list[Guard]:
    """Return a guard on the values of a tensor that would stand in a graph as a constant."""
    if not isinstance(value, Tensor) or value.requires_grad or isinstance(value, Parameter):
        return []
    return [item_guard(f"the count of changes in place of tensor '{name}'", value._version, 0, value._version[0])]


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return OutsideValues


def _function_of(value: object) -> FunctionType | None:
    """Return the Python function behind a function, method, decorated function or cell of a network; else None."""
    for _ in range(8):
        if isinstance(value, FunctionType):
            return value
        value = value.__func__ if isinstance(value, MethodType) else getattr(value, "__wrapped__", None)
    return None
