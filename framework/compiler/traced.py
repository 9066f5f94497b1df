"""What stands for a tensor while code is captured: it has a type and a node, and no values."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ..context import CAPTURE
from ..dtype import Dtype
from ..errors import EngineError, ShapeError
from ..ir import Node
from ..ir.control_ops import child_key
from ..primitive import PRIMITIVES, Primitive
from ..random import Key
from ..specs import Shape, Spec
from ..tensor import Array, Tensor

__all__ = ["CaptureError", "NoValues", "TracedKey", "TracedTensor"]

_ENGINE = str(Path(__file__).parents[1])


class CaptureError(EngineError, RuntimeError):
    """Code that cannot become a graph as it was asked for; the message has file, line and the construct."""


class TracedTensor(Tensor):
    """A tensor inside a function that is being captured.

    Shape and dtype are those it will have; whatever asks for its values (`bool`, `float`, `numpy()`, an index made
    of it) is told that there are none yet.
    """

    __slots__ = ("is_cut", "node", "spec")
    __fallback_priority__ = 10

    def __init__(self, node: Node) -> None:
        if not isinstance(node.type, Spec):
            raise TypeError(f"a traced tensor stands for a node of tensor type, got {node.type}")
        self._grad = self._node = self._hooks = None
        self._index, self._version = 0, [0]
        self.requires_grad = False
        self.node, self.spec = node, node.type
        self.is_cut = False  # made where nothing is recorded: gradients of what uses it stop there

    @property
    def _data(self) -> Array:  # type: ignore[override]
        _no_values("the array behind a tensor")

    @property
    def shape(self) -> Shape:
        """Lengths of the axes, symbolic ones included."""
        return self.spec.shape

    @property
    def dtype(self) -> Dtype:
        """Element type."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.spec.size

    @classmethod
    def __fallback__(cls, primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object]) -> object:
        """Return the traced result; an error where no capture is running."""
        capture = CAPTURE.get()
        if capture is None:
            raise CaptureError(
                f"'{primitive.name}' met a tensor that was captured by a jit-compiled function that has ended; "
                f"do not keep tensors from inside such a function in lists, attributes or globals: return them"
            )
        return capture.apply(primitive, inputs, attributes)

    def become(self, other: Tensor) -> None:
        """Let this tensor stand for the value of another traced tensor from now on: a change in place."""
        if not isinstance(other, TracedTensor) or other.spec != self.spec:
            raise TypeError(f"a traced tensor of {self.spec} cannot become {other!r}")
        self.node = other.node

    def numpy(self) -> Array:
        """Raise: there are no values yet."""
        _no_values("numpy()")

    def asnumpy(self) -> Array:
        """Raise: there are no values yet."""
        _no_values("asnumpy()")

    def item(self) -> bool | int | float:
        """Raise: there are no values yet."""
        _no_values("item()")

    def tolist(self) -> object:
        """Raise: there are no values yet."""
        _no_values("tolist()")

    def __len__(self) -> int:
        if not self.spec.shape:
            raise ShapeError("a tensor of no axes has no length; use .size")
        return self.spec.shape[0]

    def __bool__(self) -> bool:
        _no_values("a Python condition (if, while, and, or, not, assert)")

    def __int__(self) -> int:
        _no_values("int()")

    def __float__(self) -> float:
        _no_values("float()")

    def __index__(self) -> int:
        _no_values("a Python index or range()")

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        _no_values("a NumPy function")

    def detach(self) -> Tensor:
        """Return the same value; no gradient flows through."""
        result: Tensor = PRIMITIVES["stop_gradient"](self)
        return result

    def __repr__(self) -> str:
        return f"TracedTensor(shape={self.shape}, dtype={self.dtype})"


class TracedKey(Key):
    """A random key inside a function that is being captured; every call of the compiled function gets a fresh one."""

    __slots__ = ("node",)
    node: Node

    def __init__(self, node: Node) -> None:
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "bits", 0)

    def child(self, word: bytes, *numbers: int) -> Key:
        """Return the traced child."""
        capture: Any = CAPTURE.get()  # a `GraphCapture`, whose module imports this one
        if capture is None:
            raise CaptureError("a random key of a compiled function that has ended was used; draw a new one")
        return TracedKey(capture.graph.apply(child_key, self.node, word=word, numbers=numbers))


class NoValues(CaptureError, AttributeError):
    """The values of a tensor were asked for while a function is captured."""


def user_line() -> str:
    """Return file and line of the user's code that is running or interpreted, "" if there is none."""
    capture = CAPTURE.get()
    where = getattr(capture, "where", None)
    if where is not None and where().file:
        return f"{where().file}:{where().line}"
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _no_values(who: str) -> NoReturn:
    raise NoValues(
        f"{who} needs the values of a tensor, which are not known while a function is captured ({user_line()}); "
        f'compile with capture_mode="ast" (if, while and for over tensors become part of the graph) or "bytecode" '
        f"(the function is split there), or use ops.where"
    )
