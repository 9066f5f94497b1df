"""Numbers in attributes that the function itself changes, such as a counter: every run reads and writes them.

When the capture meets the first write it starts over: then the attribute is known to be state, its value enters the
graph as a number, and the last value of a run is written back when the run is over.
"""

from typing import Any

import numpy as np

from ...ir.control import Control
from ...shape import Spec
from ...tensor import Array
from ..traced import CaptureError
from .heap import Heap
from .slots import Variables
from .staging import SourceCapture
from .values import NUMBER_DTYPES, TracedNumber, as_weak, kind_of, number_tensor

__all__ = ["Restart", "State"]

Value = Any  # a value of the user's program


class Restart(BaseException):
    """The capture begins anew: an attribute turned out to be state. User code cannot catch it."""


def _read(*_: object, owner: Any, name: str, kind: type) -> Array:
    value = getattr(owner, name)
    if type(value) is not kind:
        raise CaptureError(
            f"attribute '{name}' of {type(owner).__name__} was a {kind.__name__} when the function was compiled, "
            f"is a {type(value).__name__}; set it to a {kind.__name__}"
        )
    return np.asarray(value, NUMBER_DTYPES[kind])


def _write(value: Any, *_: object, owner: Any, name: str, kind: type) -> Any:
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
        """Nothing; the graph reads all of them first."""
        self._capture = capture
        for key, (owner, name) in self.places.items():
            kind = type(getattr(owner, name))
            node = capture.graph.apply(_read_attribute, *capture._after(), owner=owner, name=name, kind=kind)
            self._initial[key] = as_weak(capture.value_of(capture._effect(node)))
            self.values[key] = self._initial[key]

    def finish(self) -> None:
        """Nothing; the graph writes those that have changed."""
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
        """Whether an attribute is state."""
        return bool(self.places) and (id(owner), name) in self.places

    def read(self, owner: Value, name: str) -> Value:
        """What it holds on the running path."""
        return self.values[id(owner), name]

    def write(self, owner: Value, name: str, value: Value, what: str) -> None:
        """Nothing; the attribute holds the value, a number of the kind it had.

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
