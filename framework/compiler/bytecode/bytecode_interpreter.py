"""The interpreter that builds a graph from bytecode, the capture it works on, and the frame that a call begins with.

What `Symbolic` cannot put into the graph it leaves alone: it raises `GraphBreak` with every frame as it was before the
instruction, and the instruction is run by `Concrete`. So whatever happens, happens as in plain Python.
"""

from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...context import CAPTURE
from ...errors import EngineError
from ...ir import Where
from ...nn.cell import Cell
from ...random import Key
from ...tensor import Parameter, Tensor
from ..capture import GraphCapture
from ..captured_cells import has_backward_hooks, hooks_of
from ..guards import attribute_guard, closure_guard, is_simple, item_guard, version_guard
from ..jit import Compiled
from .bytecode_frame import NULL, BytecodeFrame, enter
from .concrete import (
    MUTABLE,
    READING,
    Concrete,
    GraphBreak,
    Length,
    Steps,
    ValueHandle,
    builtin,
    can_interpret,
    function_of,
    is_callable_part,
    is_engine,
    is_engine_or_numpy,
    is_library,
    is_object,
    is_pure,
)

__all__ = ["BytecodeCapture", "Symbolic", "Unsplittable", "first_frame"]

_STABLE = (Cell, Parameter, FunctionType, ModuleType, type)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


class Symbolic(Concrete):
    """Runs frames on traced tensors, as far as that goes.

    Args:
        capture: What the graph is built in: a `BytecodeCapture`.
        frames: From the outermost to the one that runs.
        handles: What the guards on handles are asked of.
    """

    def __init__(self, capture: "BytecodeCapture", frames: list[BytecodeFrame], handles: object = ()) -> None:
        super().__init__(frames)
        self.capture = capture
        self._handles = handles
        self._owned: dict[int, object] = {}
        self._found: dict[int, object] = {}

    def run(self) -> object:
        """Return the result of the outermost frame.

        Raises:
            GraphBreak: The graph ends earlier; the frames stand before the instruction that ends it.
        """
        while True:
            frame = self.frames[-1]
            stack, index, names, depth = frame.stack[:], frame.index, frame.names, len(self.frames)
            before = self.capture.snapshot()
            try:
                if not self.step():
                    return self.result
            except Exception as error:  # whatever it is, plain Python will meet it too, or not
                del self.frames[depth:]
                if len(self.frames) < depth:
                    self.frames.append(frame)
                frame.stack, frame.index, frame.names = stack, index, names
                self.capture.restore(before)
                words = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
                raise GraphBreak(words) from error

    # Values from outside.

    def read(self, value: object) -> object:
        """Return the value; of a handle what it holds, if that is guarded from now on."""
        if not isinstance(value, ValueHandle):
            return value
        held = value.value
        if not (is_simple(held) or isinstance(held, _STABLE) or (is_object(held) and not is_callable_part(held))):
            return value
        self.capture.guards.append(item_guard("a value from before", self._handles, value.number, held))
        return self.find(held)

    def known(self, value: object) -> Any:  # whatever the program does with the value
        """Return the value, which may not be a handle."""
        value = self.read(value)
        if isinstance(value, ValueHandle):
            raise GraphBreak("an object from outside is used")
        return value

    def own(self, value: object) -> object:
        """Return the value, which was made here: it may be changed."""
        self._owned[id(value)] = value
        return value

    def owns(self, value: object) -> bool:
        """Return whether the object was made here."""
        return id(value) in self._owned

    def find(self, value: object) -> object:
        """Return the value, which was found outside and is guarded."""
        self._found[id(value)] = value
        return value

    def is_from_outside(self, value: object) -> bool:
        """Return whether the object was there before: it is the same for every run."""
        return id(value) in self._found or value is NULL or isinstance(value, (*_STABLE, BuiltinFunctionType))

    def change(self, owner: object) -> None:
        """Raise unless the object was made here."""
        if id(owner) not in self._owned:
            raise GraphBreak("an object from outside is changed")

    def outside(self, what: str) -> None:
        """Raise: this is not for a graph."""
        raise GraphBreak(f"{what} is not part of a graph")

    def change_outside(self, what: str) -> None:
        """Raise: something outside of the function changes."""
        raise GraphBreak(f"{what} is changed")

    def whole(self, value: object) -> Any:  # iterated over and indexed by the callers
        """Return the container, everything in it guarded if it is from outside."""
        value = self.known(value)
        if id(value) in self._owned or isinstance(value, tuple | str | range | Tensor | frozenset | bytes):
            return value
        if isinstance(value, Cell):
            self.capture.meet(value)
            return list(iter(value))  # type: ignore[call-overload]
        if not isinstance(value, list | dict):
            raise GraphBreak("an object from outside is iterated over")
        size = len(value)
        self.capture.guards.append(attribute_guard("the length of a container", Length(value), "now", size))
        for key in value if isinstance(value, dict) else range(size):
            self._guard_item(value, key)
        return value

    # What is indexed or called below is a value of the program: Python itself says whether it can be.

    def _guard_item(self, owner: Any, key: object) -> object:
        value = owner[key]
        self.capture.guards += [item_guard(f"item {key!r} of a container", owner, key, value)]
        self.capture.guards += version_guard(f"item {key!r}", value)
        return self.find(value)

    def compute(self, function: Callable[..., object], *values: object) -> object:
        """Return the result of an operator on traced tensors and known values."""
        return function(*(self.known(x) for x in values))

    def truth(self, value: object) -> bool:
        """Return whether a known value counts as true; a traced tensor ends the graph."""
        value = self.known(value)
        return bool(value) if isinstance(value, Tensor | Cell) else bool(self._looked_at(value))

    def _looked_at(self, value: object) -> object:
        return self.whole(value) if isinstance(value, list | dict) else value

    def iterate(self, value: object) -> object:
        """Return an iterator over known values."""
        value = self.known(value)
        if isinstance(value, Steps):
            return value
        whole = self.whole(value)
        return Steps(whole if isinstance(whole, list | tuple | range | str) else list(whole))

    def advance(self, iterator: object) -> tuple[bool, object]:
        """Return the next value of an iterator that was made here."""
        if not isinstance(iterator, Steps):
            raise GraphBreak("an iterator from outside is asked")
        if iterator.index >= len(iterator.items):
            return False, None
        iterator.index += 1
        return True, iterator.items[iterator.index - 1]

    def read_global(self, frame: BytecodeFrame, name: str) -> object:
        """Return a global, guarded; or a built-in."""
        if name not in frame.globals:
            return builtin(frame, name)
        value = frame.globals[name]
        self.capture.guards += [item_guard(f"global '{name}'", frame.globals, name, value), *version_guard(name, value)]
        return self.find(value)

    def read_cell(self, frame: BytecodeFrame, name: str, cell: CellType) -> object:
        """Return a variable of an enclosing function, guarded; one of this function as it is."""
        value = cell.cell_contents
        if name in frame.code.code.co_freevars and id(cell) not in self._owned:
            what = f"variable '{name}' of {frame.code.code.co_name}"
            self.capture.guards += [closure_guard(what, cell, value), *version_guard(name, value)]
            self.find(value)
        return value

    def read_attribute(self, owner: object, name: str) -> object:
        """Return an attribute; guarded where it may change."""
        owner = self.known(owner)
        value = getattr(owner, name)
        if isinstance(owner, Tensor | Key | np.ndarray) or id(owner) in self._owned or is_simple(owner):
            return value
        if isinstance(owner, ModuleType | type) and is_engine_or_numpy(owner):
            return value
        is_method = isinstance(value, MethodType) and value.__self__ is owner  # of a class: made anew at every look
        if is_method or isinstance(owner, list | dict | set | tuple) or callable(getattr(type(owner), name, None)):
            return value
        found = getattr(type(owner), name, None)
        if isinstance(found, property) and not (is_simple(value) or is_engine(type(owner))):
            raise GraphBreak(f"the property '{name}' may do anything")
        guard = attribute_guard(f"{type(owner).__name__}.{name}", owner, name, value, by_cell=isinstance(owner, Cell))
        self.capture.guards += [guard, *version_guard(name, value)]
        return self.find(value)

    def read_item(self, owner: Any, key: object) -> object:
        """Return an item; guarded where it may change."""
        owner, key = self.known(owner), self.known(key)
        if isinstance(owner, list | dict) and id(owner) not in self._owned:
            if isinstance(key, slice):
                return self.own(self.whole(owner)[key])
            return self._guard_item(owner, key)
        if isinstance(owner, Cell):
            self.capture.meet(owner)
        elif not isinstance(owner, Tensor | tuple | str | range | list | dict | np.ndarray):
            raise GraphBreak("an object from outside is indexed")
        return owner[key]

    # Calls.

    def call(
        self, frame: BytecodeFrame, function: Any, arguments: tuple[object, ...], options: dict[str, object]
    ) -> None:
        """Enter the function, or push its result on the stack."""
        function = self.known(function)
        if isinstance(function, Compiled):
            function = function._fn
        if isinstance(function, Cell):
            self._call_cell(frame, function, arguments, options)
            return
        python = function_of(function)
        if python is not None and not is_engine(python):
            if is_library(python.__code__) or not can_interpret(python.__code__):
                raise GraphBreak(f"'{python.__qualname__}' is called")
            given = (function.__self__, *arguments) if isinstance(function, MethodType) else arguments
            self.frames.append(enter(python, given, options))
            return
        frame.stack.append(self._native(function, arguments, options))

    def _call_cell(
        self, frame: BytecodeFrame, cell: Cell, arguments: tuple[object, ...], options: dict[str, object]
    ) -> None:
        construct = function_of(type(cell).__dict__.get("construct"))
        is_plain = type(cell).__call__ is Cell.__call__ and not any(hooks_of(cell)) and not has_backward_hooks(cell)
        if construct is None or is_engine(construct) or not is_plain or not can_interpret(construct.__code__):
            frame.stack.append(self.own(cell(*self._all_known(arguments), **options)))
            return
        self.frames.append(enter(construct, (cell, *arguments), options, cell))
        self.capture.enter_cell(cell)

    def _native(self, function: object, arguments: tuple[object, ...], options: dict[str, object]) -> object:
        """Return the result of a function that builds the graph or only computes."""
        if not self._may_run(function):
            raise GraphBreak(f"{getattr(function, '__qualname__', function)!r} is called")
        given = [self.interpreted(x) for x in self._all_known(arguments)]
        named = zip(options, map(self.interpreted, self._all_known(options.values())), strict=True)
        result: Any = self.interpreted(function)(*given, **dict(named))
        if hasattr(result, "__next__"):
            return Steps(list(result))
        if type(result) in _VIEWS:
            return self.own(list(result))
        return self.own(result) if isinstance(result, list | dict | set) else result

    def interpreted(self, function: object) -> Any:  # what the engine is given to call, or another value
        """Return what the engine is given to call for a function of the user: its interpretation; other things as they
        are.

        Functions that the engine made around the user's, such as gradients, are made anew around that.
        """
        python: Any = function if isinstance(function, FunctionType) else None
        if isinstance(function, MethodType) and not is_engine(function.__func__):
            python = function.__func__
        if python is None:
            return function
        if not is_engine(python):
            return partial(self._interpret, function)
        inner = [cell.cell_contents for cell in python.__closure__ or ()]
        changed = [self.interpreted(x) for x in inner]
        if all(a is b for a, b in zip(inner, changed, strict=True)):
            return function
        cells = tuple(CellType(x) for x in changed)
        made = FunctionType(python.__code__, python.__globals__, python.__name__, python.__defaults__, cells)
        made.__kwdefaults__ = python.__kwdefaults__
        return made

    def _interpret(self, function: Any, *arguments: object, **options: object) -> object:
        if CAPTURE.get() is None:  # a hook that was registered during the capture
            return function(*arguments, **options)
        python = function_of(function)
        if python is None or is_library(python.__code__) or not can_interpret(python.__code__):
            raise GraphBreak(f"'{function.__qualname__}' is called by the engine")
        given = (function.__self__, *arguments) if isinstance(function, MethodType) else arguments
        return self.capture.interpret(Symbolic(self.capture, [enter(python, given, options)], self._handles))

    def _all_known(self, values: Iterable[object]) -> list[object]:
        known = [self.known(x) for x in values]
        return [list(x.rest()) if isinstance(x, Steps) else self._looked_at(x) for x in known]

    def _may_run(self, function: object) -> bool:
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, ModuleType | type) and isinstance(owner, MUTABLE):
            is_reading = getattr(function, "__name__", "") in READING
            if is_reading:
                self.whole(owner)
            return is_reading or id(owner) in self._owned
        return function_of(function) is not None or is_pure(function) or is_engine(type(function))

    def leave(self, value: object) -> None:
        """Return the value from the running frame, marked if it is that of a cell."""
        frame = self.frames[-1]
        if frame.cell is not None:
            value = self.capture.leave_cell(frame.cell, value)
        super().leave(value)


class Unsplittable(Exception):
    """A function that has to run as plain Python: its instructions are not all known."""


class BytecodeCapture(GraphCapture):
    """A capture that interprets the frames of the user's functions, so that it knows their lines."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.running: list[Symbolic] = []

    def where(self) -> Where:
        """Return the running cell, and the line of the frame that is interpreted."""
        site = self.cells.site
        if not self.running or not self.running[-1].frames:
            return Where(site)
        frame = self.running[-1].frames[-1]
        return Where(site, frame.code.code.co_filename, frame.line)

    def construct(self, cell: Cell, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return what a cell computes that another cell, one of the engine, has called."""
        function = function_of(type(cell).construct)
        if function is None or is_engine(function):
            return cell.construct(*inputs, **options)
        if not can_interpret(function.__code__):
            raise GraphBreak(f"'{function.__qualname__}' is called by the engine")
        return self.interpret(Symbolic(self, [enter(function, (cell, *inputs), options)]))

    def interpret(self, run: Symbolic) -> object:
        """Return the result of the outermost frame.

        Raises:
            GraphBreak: The graph ends earlier.
        """
        self.running.append(run)
        try:
            return run.run()
        finally:
            self.running.pop()


def first_frame(fn: Callable[..., object], arguments: tuple[object, ...], options: dict[str, object]) -> BytecodeFrame:
    """Return the frame of a call of a function, method or cell.

    Raises:
        Unsplittable: It is something else, or has instructions that are not known.
        TypeError: The function does not take such arguments.
    """
    cell = fn if isinstance(fn, Cell) else None
    function = function_of(fn if cell is None else type(cell).construct)
    if cell is not None:
        arguments = (cell, *arguments)
    elif isinstance(fn, MethodType):
        arguments = (fn.__self__, *arguments)
    if not isinstance(function, FunctionType) or is_engine(function) or not can_interpret(function.__code__):
        code = getattr(function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        raise Unsplittable(
            f"'{getattr(function, '__qualname__', fn)}'{place} is run by plain Python as a whole: it is the "
            f"engine's, or has a try or with block, yields, defines a class or calls super"
        )
    return enter(function, arguments, options, cell)
