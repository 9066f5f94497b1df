"""`x[i] = v` for a tensor that the function has made: from then on the object stands for a new value.

Whoever holds the object sees the change, on the path where it happened, as with a list: what it stands for is kept in a
`Variables`, which branches join and loops carry. What would not see it is refused: a tensor from outside (the caller's
would change), one that came out of a branch or loop (others may hold what it was made of), and one whose memory
another tensor shares that is still alive.
"""

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from ... import ops
from ...context import RECORDING
from ...errors import GradientError
from ...ir import Apply, ConstantNode, Node
from ...ops.operands import cast_to
from ...primitive import PRIMITIVES, Primitive
from ...tensor import Array, Tensor, wrap
from ..traced import TracedTensor
from .paths import Heap, Slot, Variables
from .traced_numbers import TracedNumber, Value, as_strong, kind_of, number_tensor

__all__ = ["SHARING", "Elements"]

#: Primitives whose result may be a view of the memory of an argument.
SHARING = frozenset(
    (
        *("broadcast_to", "ceil", "floor", "gate", "getitem", "identity", "mark", "mark_gradient", "observe"),
        *("observe_gradient", "reshape", "round", "segment", "show", "split", "stop_gradient", "swapaxes", "transfer"),
        *("transpose", "trunc", "cast", "real", "imag", "conj"),
    )
)
_MAKING = ("zeros", "ones", "full", "empty", "arange", "eye", "linspace", "zeros_like", "ones_like", "full_like")


class _Held(TracedTensor):
    """What a tensor stands for; no variable holds this object."""

    __slots__ = ()


class Elements:
    """The tensors of one capture whose elements were assigned, and those that share memory.

    Attributes:
        written: What each of them stands for, by its identity.
    """

    def __init__(self) -> None:
        self.written = Variables(lambda key: _Held(self._first[key].node))
        self._first: dict[int, TracedTensor] = {}
        self._made: set[Node] = set()
        self._shared: set[Node] = set()
        self._base: dict[Node, Node] = {}
        self._views: dict[Node, list[ref[TracedTensor]]] = {}

    def current(self, x: TracedTensor) -> TracedTensor:
        """Return what a tensor stands for on the running path."""
        found = self.written.get(id(x), x) if self.written else x
        assert isinstance(found, TracedTensor)
        return found

    def note(self, inputs: tuple[object, ...], result: object) -> None:
        """Note that the result of an operation may share the memory of its arguments."""
        results = result if isinstance(result, tuple) else (result,)
        for x in inputs:
            if isinstance(x, TracedTensor):
                base = self._base.get(x.node, x.node)
                for y in results:
                    if isinstance(y, TracedTensor):
                        self._base[y.node] = base
                        self._views.setdefault(base, []).append(ref(y))

    def share(self, x: Value) -> None:
        """Note that another object now stands for the tensor, too."""
        if isinstance(x, TracedTensor) and not isinstance(x, _Held):
            self._shared.add(self._base.get(x.node, x.node))

    def concerns(self, slot: Slot, sees: Callable[[Node], bool]) -> bool:
        """Return whether a place exists there: not what a tensor stands for that only one of the paths has made."""
        return slot.container is not self.written or sees(self._first[slot.key].node)

    def local(self, function: Value, result: Value) -> Value:
        """Return the result of a call, for a variable whose elements will be assigned: of a new tensor a traced one."""
        name, home = getattr(function, "__name__", ""), getattr(function, "__module__", "") or ""
        if type(result) is not Tensor or name not in _MAKING or not home.startswith(_ENGINE) or result.requires_grad:
            return result
        x = TracedTensor(ConstantNode(result))
        self._made.add(x.node)
        return x

    def obstacle(self, x: Tensor) -> str:
        """Return why the elements of a tensor cannot be assigned, "" if they can."""
        if not isinstance(x, TracedTensor):
            return "of a tensor that is known while the function is captured"
        node = x.node
        if node in self._base:
            return "of a tensor that may share the memory of another"
        is_result = isinstance(node, Apply) and isinstance(getattr(node.function, "value", None), Primitive)
        if not is_result and node not in self._made:
            return "of a tensor that the function has not made itself, or that came out of a branch or loop,"
        if node in self._shared:
            return "of a tensor that another variable may stand for since a branch or loop"
        if any(view() is not None for view in self._views.get(node, ())):
            return "of a tensor while another one shares its memory"
        return ""

    def assign(self, heap: Heap, x: TracedTensor, index: Value, value: Value) -> None:
        """Run `x[index] = value`.

        Raises:
            GradientError: As in eager code: assignments to elements are not recorded.
        """
        if x._node is not None or (x.requires_grad and RECORDING.get()):
            raise GradientError("item assignment is not recorded; use ops.where, or assign inside no_grad()")
        new = _with(x, index, value)
        self._first[id(x)] = x
        heap.touch(self.written)
        self.written[id(x)] = new
        x.mark_changed()


_ENGINE = __name__.partition(".compiler")[0]


def _with(x: TracedTensor, index: Value, value: Any) -> TracedTensor:
    """Return the tensor with other elements."""
    value = number_tensor(value, x.dtype) if kind_of(value) is not None else cast_to(value, x.dtype)
    value = PRIMITIVES["stop_gradient"](value)
    if isinstance(index, Tensor) and index.dtype.kind == "b":
        mask = index.reshape(*index.shape, *(1,) * (x.ndim - index.ndim))
        new = ops.where(mask, value, x)
    else:
        places = _places(x, index)
        new = ops.index_put(x.reshape(-1), 0, places.reshape(-1), ops.broadcast_to(value, places.shape).reshape(-1))
        new = new.reshape(x.shape)
    assert isinstance(new, TracedTensor)
    return _Held(new.node)


def _places(x: Tensor, index: Value) -> Tensor:
    """Return where the elements at an index stand in the flat tensor."""
    all_places: Array = np.arange(x.size).reshape(x.shape)
    parts = index if isinstance(index, tuple) else (index,)
    return wrap(all_places)[tuple(as_strong(part) if isinstance(part, TracedNumber) else part for part in parts)]
