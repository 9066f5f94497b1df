"""Frames on real values, one instruction at a time, and what becomes of a call: entered, made natively, or a break.

inside      the user's own functions and the `construct` of his cells: interpreted, so that what they read is guarded
native      the engine's functions, which build the graph; and functions of Python and NumPy that only compute
break       everything else: it may do something, or need values
"""

import builtins
import inspect
import sys
from collections.abc import Callable, Sequence, Sized
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...tensor import Tensor
from ..traced import CaptureError, TracedKey, TracedTensor
from .bytecode_frame import BytecodeFrame, Instruction, decode
from .newer_instructions import handlers

__all__ = [
    "MUTABLE",
    "Concrete",
    "GraphBreak",
    "Length",
    "Steps",
    "ValueHandle",
    "builtin",
    "can_interpret",
    "is_callable_part",
    "is_engine",
    "is_library",
    "is_object",
    "is_pure",
]

_ENGINE = str(Path(__file__).parents[2])

_PURE_BUILTINS = frozenset(
    vars(builtins)[name]
    for name in (
        "abs", "all", "any", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate", "float",
        "format", "frozenset", "hash", "int", "isinstance", "issubclass", "len", "list", "max", "min", "ord", "pow",
        "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
    )
)  # fmt: skip
_PURE_MODULES = ("math", "_operator", "operator", "cmath")
#: Methods that only look at a list, dict or set.
READING = frozenset(("copy", "count", "get", "index", "items", "keys", "values", "union", "intersection", "issubset"))


@lru_cache(maxsize=4096)
def can_interpret(code: CodeType) -> bool:
    """Return whether every instruction is known; try and with blocks, generators and coroutines are not."""
    special = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & special or code.co_exceptiontable or "super" in code.co_names:
        return False
    known = handlers()
    return bool(known) and all(instruction.name in known for instruction in decode(code).instructions)


def is_engine(function: object) -> bool:
    """Return whether a function or class is the engine's own."""
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        return code.co_filename.startswith(_ENGINE)
    module = getattr(function, "__module__", None) or ""
    return module.startswith(__package__.rpartition(".compiler")[0])


@lru_cache(maxsize=4096)
def is_library(code: CodeType) -> bool:
    """Return whether code belongs to Python's own library or an installed package: it is not gone into."""
    name = code.co_filename
    home = str(Path(inspect.__file__).parent)
    return name.startswith((home, "<frozen")) or "site-packages" in name or "dist-packages" in name


def is_pure(function: object) -> bool:
    """Return whether a callable that is no Python function only computes its result."""
    try:
        if function in _PURE_BUILTINS:
            return True
    except TypeError:
        return False
    if isinstance(function, type):
        return _is_pure_class(function)
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, BuiltinFunctionType):
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            return module in _PURE_MODULES or _is_numpy(module)
        return isinstance(owner, str | tuple | int | float | range | frozenset | bytes)
    return _is_numpy(module) and callable(function)


def _is_pure_class(kind: type) -> bool:
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return True
    return issubclass(kind, BaseException) or is_engine(kind) or _is_numpy(kind.__module__)


def _is_numpy(module: str) -> bool:
    return module.startswith("numpy") and "random" not in module


def function_of(callable_: object) -> FunctionType | None:
    """Return the Python function behind a function or method, else None."""
    if isinstance(callable_, MethodType):
        callable_ = callable_.__func__
    return callable_ if isinstance(callable_, FunctionType) else None


#: Objects that `+=` and their methods change.
MUTABLE = (list, dict, set, bytearray, np.ndarray)


class Concrete:
    """Runs frames on real values."""

    version: tuple[int, int] = sys.version_info[:2]

    def __init__(self, frames: list[BytecodeFrame]) -> None:
        self.frames = frames
        self.result: object = None
        self._handlers = handlers()

    def step(self) -> bool:
        """Return whether frames are left after one more instruction; if not, `result` is there."""
        frame = self.frames[-1]
        instruction: Instruction = frame.code.instructions[frame.index]
        frame.index += 1
        self._handlers[instruction.name](self, frame, instruction)
        return bool(self.frames)

    def leave(self, value: object) -> None:
        """Return the value from the running frame."""
        self.frames.pop()
        if self.frames:
            self.frames[-1].stack.append(value)
        else:
            self.result = value

    def call(
        self, frame: BytecodeFrame, function: Any, arguments: tuple[object, ...], options: dict[str, object]
    ) -> None:
        """Push the result of the call on the stack."""
        frame.stack.append(function(*arguments, **options))

    # What the symbolic interpreter has to look at is plain here. Values that are called, iterated over or indexed are
    # `Any`: Python itself says whether they can be.

    def read(self, value: object) -> object:
        """Return the value of a variable."""
        return value

    known = own = whole = read

    def is_mutable(self, value: object) -> bool:
        """Return whether `+=` changes the object."""
        return isinstance(value, MUTABLE)

    def change(self, owner: object) -> None:
        """Allow any change of the object."""

    def outside(self, what: str) -> None:
        """Allow it, whatever it is."""

    def change_outside(self, what: str) -> None:
        """Allow changes of what lies outside of the function."""

    def compute(self, function: Callable[..., object], *values: object) -> object:
        """Return the result of an operator."""
        return function(*values)

    def truth(self, value: object) -> bool:
        """Return whether the value counts as true."""
        return bool(value)

    def iterate(self, value: Any) -> object:
        """Return an iterator."""
        return iter(value)

    def advance(self, iterator: Any) -> tuple[bool, object]:
        """Return whether the iterator has a next value, and that."""
        for value in iterator:
            return True, value
        return False, None

    def read_global(self, frame: BytecodeFrame, name: str) -> object:
        """Return a global or built-in."""
        if name in frame.globals:
            return frame.globals[name]
        return builtin(frame, name)

    def read_cell(self, frame: BytecodeFrame, name: str, cell: CellType) -> object:
        """Return a variable shared with another function."""
        del frame, name
        return cell.cell_contents

    def read_attribute(self, owner: object, name: str) -> object:
        """Return an attribute."""
        return getattr(owner, name)

    def read_item(self, owner: Any, key: object) -> object:
        """Return an item."""
        return owner[key]


def builtin(frame: BytecodeFrame, name: str) -> object:
    """Return what Python itself has under that name."""
    found = frame.globals["__builtins__"]
    space = found if isinstance(found, dict) else vars(found)
    if name not in space:
        raise NameError(f"name '{name}' is not defined")
    return space[name]


class GraphBreak(CaptureError):
    """The graph ends before this instruction."""


class ValueHandle:
    """A value that came from outside of the graph and has not been looked at: nothing is assumed of it.

    Attributes:
        number: Its place among those values.
        value: What it was when the graph was captured.
    """

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: object) -> None:
        self.number, self.value = number, value


class Steps:
    """An iterator whose place is known."""

    __slots__ = ("index", "items")

    def __init__(self, items: Sequence[object]) -> None:
        self.items, self.index = items, 0

    def rest(self) -> list[object]:
        """Return what is still to come."""
        return list(self.items[self.index :])


class Length:
    """The length of a container, as an attribute."""

    __slots__ = ("_of",)

    def __init__(self, of: Sized) -> None:
        self._of = of

    @property
    def now(self) -> int:
        """How many items there are."""
        return len(self._of)


def is_engine_or_numpy(owner: object) -> bool:
    """Return whether a module or class never changes."""
    name: str = getattr(owner, "__module__", None) or getattr(owner, "__name__", None) or ""
    return is_engine(owner) or name.partition(".")[0] in ("numpy", "math", "mindscope")


def is_object(value: object) -> bool:
    """Return whether a value is an object of a class of the user, which stays the same from call to call."""
    return not isinstance(value, (*MUTABLE, tuple, Tensor, TracedTensor, TracedKey)) and not hasattr(value, "__next__")


def is_callable_part(value: object) -> bool:
    """Return whether a value is a method of something else, made anew at every look."""
    owner = getattr(value, "__self__", None)
    return callable(value) and owner is not None and not isinstance(owner, ModuleType)
