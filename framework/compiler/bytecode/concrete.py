"""The interpreter that runs single instructions on real values, as plain Python would."""

import sys
from types import CellType
from typing import Any

import numpy as np

from .frame import Frame, Instruction
from .later import handlers

__all__ = ["MUTABLE", "Concrete", "builtin"]

#: Objects that `+=` and their methods change.
MUTABLE = (list, dict, set, bytearray, np.ndarray)


class Concrete:
    """Runs frames on real values."""

    version = sys.version_info[:2]

    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames
        self.result: Any = None
        self._handlers = handlers()

    def step(self) -> bool:
        """Whether frames are left after one more instruction; if not, `result` is there."""
        frame = self.frames[-1]
        instruction: Instruction = frame.code.instructions[frame.index]
        frame.index += 1
        self._handlers[instruction.name](self, frame, instruction)
        return bool(self.frames)

    def leave(self, value: Any) -> None:
        """Nothing; the running frame returns the value."""
        self.frames.pop()
        if self.frames:
            self.frames[-1].stack.append(value)
        else:
            self.result = value

    def call(self, frame: Frame, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Nothing; the result of the call is on the stack."""
        frame.stack.append(function(*arguments, **options))

    # What the symbolic interpreter has to look at is plain here.

    def read(self, value: Any) -> Any:
        """The value of a variable."""
        return value

    known = own = whole = read

    def is_mutable(self, value: Any) -> bool:
        """Whether `+=` changes the object."""
        return isinstance(value, MUTABLE)

    def change(self, owner: Any) -> None:
        """Nothing; the object may be changed."""

    def outside(self, what: Any) -> None:
        """Nothing; whatever it is may be done."""

    def change_outside(self, what: Any) -> None:
        """Nothing; what lies outside of the function may be changed."""

    def compute(self, function: Any, *values: Any) -> Any:
        """The result of an operator."""
        return function(*values)

    def truth(self, value: Any) -> bool:
        """Whether the value counts as true."""
        return bool(value)

    def iterate(self, value: Any) -> Any:
        """An iterator."""
        return iter(value)

    def advance(self, iterator: Any) -> tuple[bool, Any]:
        """Whether the iterator has a next value, and that."""
        for value in iterator:
            return True, value
        return False, None

    def read_global(self, frame: Frame, name: str) -> Any:
        """A global or built-in."""
        if name in frame.globals:
            return frame.globals[name]
        return builtin(frame, name)

    def read_cell(self, frame: Frame, name: str, cell: CellType) -> Any:
        """A variable shared with another function."""
        del frame, name
        return cell.cell_contents

    def read_attribute(self, owner: Any, name: str) -> Any:
        """An attribute."""
        return getattr(owner, name)

    def read_item(self, owner: Any, key: Any) -> Any:
        """An item."""
        return owner[key]


def builtin(frame: Frame, name: str) -> Any:
    """What Python itself has under that name."""
    found = frame.globals["__builtins__"]
    space = found if isinstance(found, dict) else vars(found)
    if name not in space:
        raise NameError(f"name '{name}' is not defined")
    return space[name]
