"""Frames: a function that is being interpreted, its variables, its stack, its place, and what runs its instructions."""

import dis
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple, Protocol

from ...nn.cell import Cell

__all__ = ["NULL", "UNBOUND", "BytecodeFrame", "DecodedCode", "InstructionRunner", "decode", "enter"]


class _Mark:
    """Something that stands in a stack or a variable and is no value of the user."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: Pushed below a callable that is no method.
NULL = _Mark("NULL")
#: In a variable that has no value yet.
UNBOUND = _Mark("UNBOUND")


class Instruction(NamedTuple):
    """One instruction, its argument resolved: `value` is a name, a constant, or the index that is jumped to."""

    name: str
    argument: int
    value: Any  # a name, a number or a constant, by the kind of instruction
    line: int


class DecodedCode(NamedTuple):
    """A code object as a list of instructions."""

    code: CodeType
    instructions: tuple[Instruction, ...]


@lru_cache(maxsize=1024)
def decode(code: CodeType) -> DecodedCode:
    """Return the instructions of a code object, jumps as indices into the list."""
    found = [x for x in dis.get_instructions(code) if x.opname not in ("CACHE", "EXTENDED_ARG")]
    place = {instruction.offset: index for index, instruction in enumerate(found)}
    starts = sorted(place)
    made = []
    line = code.co_firstlineno
    for x in found:
        line = x.starts_line if isinstance(x.starts_line, int) and x.starts_line is not True else line
        value = x.argval
        if x.opcode in dis.hasjrel or x.opcode in dis.hasjabs:
            value = place[next(offset for offset in starts if offset >= x.argval)]  # an EXTENDED_ARG may be the target
        made.append(Instruction(x.opname, x.arg if x.arg is not None else 0, value, line))
    return DecodedCode(code, tuple(made))


class BytecodeFrame:
    """One function on its way.

    Attributes:
        code: What is run.
        globals: Its module's variables.
        variables: Local ones by name; those shared with inner functions are cells.
        stack: Of values.
        index: The next instruction.
        names: Keywords of the call that comes next.
        cell: The cell of a network whose `construct` this is, else None.
    """

    __slots__ = ("cell", "closure", "code", "globals", "index", "names", "stack", "variables")

    def __init__(
        self,
        code: DecodedCode,
        space: dict[str, object],
        variables: dict[str, Any],
        closure: tuple[CellType, ...] = (),
        cell: Cell | None = None,
    ) -> None:
        self.code, self.globals, self.variables, self.closure, self.cell = code, space, variables, closure, cell
        # Instructions do with a value whatever the program does: no type fits all of them.
        self.stack: list[Any] = []
        self.index = 0
        self.names: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        """The line of the source that is running."""
        return self.code.instructions[max(self.index - 1, 0)].line

    def pop_many(self, count: int) -> list[Any]:
        """Return the last `count` values of the stack, in order, taken off."""
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken


def enter(
    function: FunctionType, arguments: tuple[object, ...], options: dict[str, object], cell: Cell | None = None
) -> BytecodeFrame:
    """Return the frame of a call.

    Raises:
        TypeError: The function does not take such arguments.
    """
    code, closure = function.__code__, function.__closure__ or ()
    if code.co_varnames[:1] == (".0",):  # a comprehension, whose argument has no name in the source
        return BytecodeFrame(decode(code), function.__globals__, {".0": arguments[0]}, closure, cell)
    bound = inspect.signature(function, follow_wrapped=False).bind(*arguments, **options)
    bound.apply_defaults()
    return BytecodeFrame(decode(code), function.__globals__, dict(bound.arguments), closure, cell)


class InstructionRunner(Protocol):
    """What handlers ask of the interpreter that runs them: `Concrete`, which knows values, or `Symbolic`.

    Values that are called, iterated over or indexed are `Any`: Python itself says whether they can be.
    """

    version: tuple[int, int]

    def read(self, value: object) -> object:
        """Return the value of a variable."""

    def known(self, value: object) -> object:
        """Return a value that an instruction looks at."""

    def own(self, value: object) -> object:
        """Return the value, which the instruction made."""

    def whole(self, value: object) -> Any:  # iterated over by the callers
        """Return a container whose items an instruction reads."""

    def leave(self, value: object) -> None:
        """Return the value from the running frame."""

    def call(
        self, frame: BytecodeFrame, function: Any, arguments: tuple[object, ...], options: dict[str, object]
    ) -> None:
        """Push the result of the call on the stack, or enter the function."""

    def is_mutable(self, value: object) -> bool:
        """Return whether `+=` changes the object."""

    def change(self, owner: object) -> None:
        """Check that the object may be changed."""

    def outside(self, what: str) -> None:
        """Check that the frame may do this."""

    def change_outside(self, what: str) -> None:
        """Check that what lies outside of the function may be changed."""

    def compute(self, function: Callable[..., object], *values: object) -> object:
        """Return the result of an operator."""

    def truth(self, value: object) -> bool:
        """Return whether the value counts as true."""

    def iterate(self, value: object) -> object:
        """Return an iterator."""

    def advance(self, iterator: Any) -> tuple[bool, object]:
        """Return whether the iterator has a next value, and that."""

    def read_global(self, frame: BytecodeFrame, name: str) -> object:
        """Return a global or built-in."""

    def read_cell(self, frame: BytecodeFrame, name: str, cell: CellType) -> object:
        """Return a variable shared with another function."""

    def read_attribute(self, owner: object, name: str) -> object:
        """Return an attribute."""

    def read_item(self, owner: Any, key: object) -> object:
        """Return an item."""
