"""What is known at one place of a program that is being written: the values of nodes, and the lines so far."""

import numpy as np

from ...ir import Constant, Node
from ...shape import Shape, Spec
from ...tensor import Tensor
from .lifetimes import Lifetimes
from .listing import Listing
from .values import Value, proxy

__all__ = ["Scope"]


class Scope:
    """The values of nodes at a place that moves through the order of the applications.

    Args:
        lives: Until where the values of nodes are read.

    Attributes:
        code: The lines so far.
        place: The number of the application that is being written.
    """

    def __init__(self, lives: Lifetimes) -> None:
        self.lives = lives
        self.code = Listing()
        self.place = 0
        self._values: dict[Node, Value] = {}

    def set(self, node: Node, value: Value) -> None:
        """Nothing; the node has this value from here on."""
        self._values[node] = value

    def known(self) -> list[tuple[Node, Value]]:
        """The nodes that have a value, with it."""
        return list(self._values.items())

    def add_parameter(self, i: int, parameter: Node, is_bound: bool) -> None:
        """Nothing; parameter number `i` has a value: a weight, or an argument of every call."""
        if not isinstance(parameter.type, Spec):
            self.code.made.arguments.append(f"x{i}")
            self._values[parameter] = Value(f"x{i}")
            return
        array = proxy(parameter.type.shape, parameter.type.dtype)
        if is_bound:
            self.code.made.weights.append(f"w{i}")
            self._values[parameter] = Value(f"w{i}", array, is_static=True)
        else:
            self.code.made.arguments.append(f"x{i}")
            self.code.line(f"if not x{i}.flags.c_contiguous: x{i} = ascontiguousarray(x{i}).reshape(x{i}.shape)")
            self._values[parameter] = Value(f"x{i}", array)

    def value(self, node: Node) -> Value:
        """The value of a node that was computed, or of a constant."""
        if node not in self._values:
            if not isinstance(node, Constant):
                raise TypeError(f"{node!r} has no value here")
            self._values[node] = self._constant(node)
        return self._values[node]

    def _constant(self, node: Constant) -> Value:
        value = node.value
        if isinstance(value, Tensor):
            value = np.ascontiguousarray(value._data).reshape(value.shape)
        if isinstance(value, np.ndarray):
            return Value(self.code.constant(value), value, is_static=True)
        if type(value) in (bool, int, float) and np.isfinite(value):
            return Value(repr(value), is_static=True)
        return Value(self.code.constant(value), is_static=True)

    def handed(self, value: Value, shape: Shape | None, is_strided: bool) -> Value:
        """The value as an operation wants it: in this shape, contiguous unless any strides will do."""
        if value.array is None:
            return value
        if not is_strided and not value.array.flags.c_contiguous:
            value = self.code.copied(value)
        return value if shape is None else self.code.reshaped(value, shape)

    def is_read_later(self, node: Node) -> bool:
        """Whether something after this place reads the node."""
        return not self.lives.dies(node, self.place) and self.place < self.lives.end
