"""What stands for a tensor while code is captured: it has a type and a node, and no values."""

from typing import Any, NoReturn

import numpy as np

from ..context import CAPTURE
from ..errors import EngineError
from ..ir import Node
from ..primitive import PRIMITIVES
from ..random import Key
from ..shape import Shape, Spec
from ..tensor import Array, Tensor

__all__ = ["CaptureError", "TracedKey", "TracedTensor"]


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
        # An array of the right shape and dtype without memory: for code that asks the array for its shape.
        length = tuple(int(n) for n in node.type.shape)
        super().__init__(np.broadcast_to(np.zeros((), node.type.dtype), length))
        self.node = node
        self.spec = node.type
        self.is_cut = False  # made where nothing is recorded: gradients of what uses it stop there

    @property
    def shape(self) -> Shape:
        """Lengths of the axes, symbolic ones included."""
        return self.spec.shape

    @classmethod
    def __fallback__(cls, primitive: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The traced result; an error where no capture is running."""
        capture = CAPTURE.get()
        if capture is None:
            raise CaptureError(
                f"'{primitive.name}' met a tensor that was captured by a jit-compiled function that has ended; "
                f"do not keep tensors from inside such a function in lists, attributes or globals: return them"
            )
        return capture.apply(primitive, inputs, attributes)

    def numpy(self) -> Array:
        """Never: there are no values yet."""
        _no_values("numpy()")

    def asnumpy(self) -> Array:
        """Never: there are no values yet."""
        _no_values("asnumpy()")

    def item(self) -> bool | int | float:
        """Never: there are no values yet."""
        _no_values("item()")

    def tolist(self) -> Any:
        """Never: there are no values yet."""
        _no_values("tolist()")

    def __bool__(self) -> bool:
        _no_values("a Python condition (if, while, and, or, not, assert)")

    def __int__(self) -> int:
        _no_values("int()")

    def __float__(self) -> float:
        _no_values("float()")

    def __index__(self) -> int:
        _no_values("a Python index or range()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        _no_values("a NumPy function")

    def detach(self) -> Tensor:
        """The same value; no gradient flows through."""
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


def _no_values(who: str) -> NoReturn:
    raise CaptureError(
        f"{who} needs the values of a tensor, which are not known while a function is captured; "
        f'compile with capture_mode="ast" (if, while and for over tensors become part of the graph) or "bytecode" '
        f"(the function is split there), or use ops.where"
    )
