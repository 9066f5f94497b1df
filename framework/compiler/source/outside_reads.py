"""What code reads that is not its own: globals, closures, attributes, guarded or refused; and numbers that it changes.

Objects that the function is given or finds outside are `known`, with the path by which they were reached. What is read
from a known object is guarded: simple values by value, others by identity, lists and dicts by what they hold. What is
written to one would happen once, while the function is captured, and never again: numbers become state that every run
of the graph reads and writes; everything else is refused with the remedy.

When the capture meets the first write it starts over: then the attribute is known to be state, its value enters the
graph as a number, and the last value of a run is written back when the run is over.
"""

import builtins
import sysconfig
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ...ir.control_ops import Control
from ...nn.cell import Cell
from ...random import Key
from ...specs import Spec
from ...tensor import Array, Parameter, Tensor
from ..guards import Guard, attribute_guard, closure_guard, is_simple, item_guard
from ..traced import CaptureError, TracedTensor
from .paths import Heap, Variables
from .staging import SourceCapture
from .traced_numbers import NUMBER_DTYPES, Gap, TracedNumber, TracedText, Value, as_weak, kind_of, number_tensor

__all__ = ["OutsideReads", "Restart", "State", "is_library"]


class Restart(BaseException):
    """The capture begins anew: an attribute turned out to be state. User code cannot catch it."""


def _read(*_: object, owner: object, name: str, kind: type) -> Array:
    value = getattr(owner, name)
    if type(value) is not kind:
        raise CaptureError(
            f"attribute '{name}' of {type(owner).__name__} was a {kind.__name__} when the function was compiled, "
            f"is a {type(value).__name__}; set it to a {kind.__name__}"
        )
    return np.asarray(value, NUMBER_DTYPES[kind])


def _write(value: object, *_: object, owner: object, name: str, kind: type) -> object:
    setattr(owner, name, kind(value))
    return value


_read_attribute = Control(
    "read_attribute", _read, lambda *_, owner, name, kind: Spec((), NUMBER_DTYPES[kind]), is_effect=True
)
_write_attribute = Control("write_attribute", _write, lambda value, *_, **__: value, is_effect=True)


class State:
    """The attributes that are state.

    Attributes:
        places: Owner and name of each, by identity of the owner; kept when the capture starts over.
    """

    def __init__(self, places: dict[tuple[int, str], tuple[Value, str]]) -> None:
        self.places = places
        self.values = Variables(lambda key: self._initial[key])
        self._initial: dict[tuple[int, str], TracedNumber] = {}
        self._capture: SourceCapture | None = None

    def begin(self, capture: SourceCapture) -> None:
        """Let the graph read all of them first."""
        self._capture = capture
        for key, (owner, name) in self.places.items():
            kind = type(getattr(owner, name))
            node = capture.graph.apply(_read_attribute, *capture._after(), owner=owner, name=name, kind=kind)
            value = capture.value_of(capture._effect(node))
            assert isinstance(value, Tensor)
            self._initial[key] = as_weak(value)
            self.values[key] = self._initial[key]

    def finish(self) -> None:
        """Let the graph write those that have changed."""
        capture = self._capture
        assert capture is not None
        for key, (owner, name) in self.places.items():
            value, kind = self.values[key], self._initial[key].kind
            if value is not self._initial[key]:
                node = capture.node_of(number_tensor(value, NUMBER_DTYPES[kind]))
                capture._effect(
                    capture.graph.apply(_write_attribute, node, *capture._after(), owner=owner, name=name, kind=kind)
                )

    def holds(self, owner: Value, name: str) -> bool:
        """Return whether an attribute is state."""
        return bool(self.places) and (id(owner), name) in self.places

    def read(self, owner: Value, name: str) -> Value:
        """Return what it holds on the running path."""
        return self.values[id(owner), name]

    def write(self, owner: Value, name: str, value: Value, what: str) -> None:
        """Store the value in the attribute, a number of the kind it had.

        Raises:
            Restart: It was not known to be state.
            CaptureError: It cannot be.
        """
        assert self._capture is not None
        heap: Heap = self._capture.heap
        key = (id(owner), name)
        if key not in self.places:
            kind = type(getattr(owner, name, None))
            if kind not in NUMBER_DTYPES or kind_of(value) is None:
                raise CaptureError(
                    f"{what} would change only once, when the function is captured, and not in every call; only "
                    f"numbers can be state of a graph: return the new value, or keep it in a Parameter"
                )
            self.places[key] = owner, name
            raise Restart
        kind = self._initial[key].kind
        if kind_of(value) not in (kind, *((bool,) if kind is int else (bool, int) if kind is float else ())):
            raise CaptureError(f"{what} holds a {kind.__name__} and cannot become {value!r} inside a compiled function")
        heap.touch(self.values)
        self.values[key] = value


_ENGINE = str(Path(__file__).parents[2])
_LIBRARIES = tuple(
    dict.fromkeys(
        path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_paths().get(name))
    )
)
_WIDE = 512  # items of a list or dict from outside that are guarded one by one; a longer one by identity and length


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return whether a file belongs to the engine, to Python or to an installed package, whose code is only called."""
    return file.startswith((_ENGINE, *_LIBRARIES, "<frozen"))


class OutsideReads:
    """Reads and writes of objects, on behalf of interpreted code.

    Args:
        capture: The graph that is being built.
        state: Attributes that hold numbers which change from run to run.

    Attributes:
        guards: What was read.
        is_done: The capture has ended: a hook defined in the captured function runs as plain Python.
    """

    def __init__(self, capture: SourceCapture, state: State) -> None:
        self.capture, self.state = capture, state
        self.guards: list[Guard] = []
        self.is_done = False
        self._known: dict[int, tuple[Value, str]] = {}
        self._guarded: set[tuple[int, object]] = set()
        self._lookups: dict[int, Callable[[str], Value]] = {}

    # Names.

    def names_of(self, function: FunctionType) -> Callable[[str], Value]:
        """Return a function that finds the names a Python function has from outside: its closure, globals, builtins."""
        found = self._lookups.get(id(function))
        if found is None:
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            found = self._lookups[id(function)] = partial(self._name, function, cells)
            self.capture._kept.append(function)
        return found

    def _name(self, function: FunctionType, cells: dict[str, CellType], name: str) -> Value:
        if name in cells:
            try:
                value = cells[name].cell_contents
            except ValueError:
                raise NameError(f"cannot access free variable '{name}': it has no value yet") from None
            if self._new(cells[name], name):
                self._guard(closure_guard(f"variable '{name}'", cells[name], value), value)
            return self.meet(value, name)
        space = function.__globals__
        if name in space:
            value = space[name]
            if self._new(space, name):
                self._guard(item_guard(f"global '{name}'", space, name, value), value)
            return self.meet(value, name)
        try:
            return getattr(builtins, name)
        except AttributeError:
            raise NameError(f"name '{name}' is not defined") from None

    def _new(self, owner: object, key: Value) -> bool:
        place = (id(owner), key)
        if place in self._guarded:
            return False
        self._guarded.add(place)
        return True

    def _guard(self, guard: Guard, value: Value) -> None:
        if not isinstance(value, ModuleType):
            self.guards.append(guard)

    def meet(self, value: Value, path: str) -> Value:
        """Return the value, from now on known by this path."""
        if is_simple(value) or id(value) in self._known or isinstance(value, TracedTensor | type | FunctionType):
            return value
        self._known[id(value)] = value, path
        if isinstance(value, list | dict | set) and self._new(value, "content"):
            self.guards.append(_content_guard(path, value))
        elif isinstance(value, tuple):
            for number, part in enumerate(value):
                self.meet(part, f"{path}[{number}]")
        elif isinstance(value, Tensor) and not isinstance(value, Parameter) and self._new(value, "version"):
            self.guards.append(item_guard(f"the version of {path}", value._version, 0, value._version[0]))
        return value

    def path_of(self, value: Value) -> str | None:
        """Return how an object from outside was reached; None for one that the function made itself."""
        found = self._known.get(id(value))
        return None if found is None else found[1]

    # Attributes and items.

    def attribute(self, owner: Value, name: str) -> Value:
        """Return `owner.name`."""
        if self.state.holds(owner, name):
            return self.state.read(owner, name)
        path = self.path_of(owner)
        value = self._property(owner, name)
        if value is not _NONE:
            return value
        value = getattr(owner, name)
        if isinstance(value, Gap):
            raise CaptureError(f"attribute '{name}' of {path or type(owner).__name__} {value.reason}")
        if path is None or isinstance(owner, Tensor | Key):
            return value
        below = f"{path}.{name}"
        if isinstance(owner, ModuleType):
            if (
                is_simple(value)
                and not is_library(getattr(owner, "__file__", None) or _ENGINE)
                and self._new(owner, name)
            ):
                self.guards.append(attribute_guard(below, owner, name, value))
            return value
        if _is_stored(owner, name) or is_simple(value):
            if self._new(owner, name):
                self.guards.append(attribute_guard(below, owner, name, value, by_cell=isinstance(owner, Cell)))
            return self.meet(value, below)
        return value

    def _property(self, owner: Value, name: str) -> Value:
        """Return the value of a property that a user wrote, whose code is interpreted; _NONE for anything else."""
        if isinstance(owner, Tensor | ModuleType | type):
            return _NONE
        found = getattr(type(owner), name, None)
        if not isinstance(found, property) or not isinstance(found.fget, FunctionType):
            return _NONE
        if is_library(found.fget.__code__.co_filename):
            return _NONE
        return self.capture.call(found.fget, (owner,), {})

    def item(self, owner: Any, index: Value) -> Value:
        """Return `owner[index]`."""
        path = self.path_of(owner)
        method = getattr(type(owner), "__getitem__", None)
        if isinstance(method, FunctionType) and not is_library(method.__code__.co_filename):
            return self.capture.call(method, (owner, index), {})
        value = owner[index]
        if isinstance(value, Gap):
            raise CaptureError(f"item {index!r} {value.reason}")
        return value if path is None or isinstance(index, slice) else self.meet(value, f"{path}[{index!r}]")

    def content(self, items: Value) -> Any:  # iterated over; the loop itself says what is no iterable
        """Return something to iterate over, what it holds being known by its path."""
        path = self.path_of(items)
        if path is None or not isinstance(items, list | tuple):
            return items
        return [self.meet(part, f"{path}[{number}]") for number, part in enumerate(items)]

    # Writing.

    def set_attribute(self, owner: Value, name: str, value: Value) -> None:
        """Run `owner.name = value` on this path, and in every run of the graph."""
        current = vars(owner).get(name) if hasattr(owner, "__dict__") else getattr(owner, name, None)
        path = None if self.is_done else self.path_of(owner)
        if path is None:
            if hasattr(owner, "__dict__"):
                self.capture.heap.touch(owner.__dict__)
            setattr(owner, name, value)
            return
        what = f"attribute '{path}.{name}'"
        if isinstance(current, Parameter):
            raise CaptureError(
                f"{what} is a Parameter and cannot be replaced in a graph; use set_data() for new values"
            )
        if isinstance(value, Tensor | TracedText) and not hasattr(value, "kind"):
            raise CaptureError(
                f"{what} would keep a tensor from inside a compiled function; "
                f"return the tensor, or make the attribute a Parameter and use set_data()"
            )
        self.state.write(owner, name, value, what)

    def set_item(self, owner: Any, index: Value, value: Value) -> None:
        """Run `owner[index] = value`."""
        method = getattr(type(owner), "__setitem__", None)
        if isinstance(method, FunctionType) and not is_library(method.__code__.co_filename):
            self.capture.call(method, (owner, index, value), {})
            return
        self.changing(owner)
        owner[index] = value

    def changing(self, container: Value) -> None:
        """Prepare for a change of a list, dict or set.

        Raises:
            CaptureError: It stands outside.
        """
        path = None if self.is_done else self.path_of(container)
        if path is not None:
            raise CaptureError(
                f"the {type(container).__name__} '{path}' stands outside of the compiled function, where a change "
                f"would happen only once, when it is captured; return the new value, or keep it in a Parameter"
            )
        if isinstance(container, list | dict | set):
            self.capture.heap.touch(container)


_NONE: object = object()


def _is_stored(owner: Value, name: str) -> bool:
    """Return whether an attribute is kept in the object (and is not made by the class when it is asked for)."""
    return name in getattr(owner, "__dict__", ()) or name in getattr(type(owner), "__slots__", ())


def _content_guard(path: str, container: Collection[object]) -> Guard:
    if len(container) > _WIDE:
        return Guard(f"the length of {path}", "call", partial(len, container), "length", len(container))
    ask = partial(_pairs, container) if isinstance(container, Mapping) else partial(tuple, container)
    return Guard(f"what {path} holds", "call", ask, "content", ask())


def _pairs(mapping: Mapping[object, object]) -> tuple[object, ...]:
    return tuple(part for pair in mapping.items() for part in pair)
