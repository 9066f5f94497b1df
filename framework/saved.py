"""What the tape saves, and where: hooks that pack saved tensors on the way forward and unpack them on the way back.

A recorded node keeps its arguments for its rule. Inside `saved_tensors_hooks` it keeps what `pack` made of them (a file
name, compressed bytes, nothing at all) and, in their place, shells: tensors of the same shape and place in the graph
that hold no memory.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .errors import GradientError
from .tensor import Array, Tensor, wrap

__all__ = ["saved_tensors_hooks"]

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class Saving:
    """The hooks of one `saved_tensors_hooks` block; a tensor that several nodes save is packed once."""

    __slots__ = ("_known", "pack", "unpack")

    def __init__(self, pack: Pack, unpack: Unpack) -> None:
        self.pack, self.unpack = pack, unpack
        self._known: dict[int, tuple[weakref.ref[Array], Packed]] = {}

    def packed(self, array: Array) -> "Packed":
        """The packed form of an array."""
        key = id(array)
        known = self._known.get(key)
        if known is not None and known[0]() is array:
            return known[1]
        packed = Packed(self.unpack, self.pack(wrap(array)), array)
        self._known[key] = (weakref.ref(array, lambda _: self._known.pop(key, None)), packed)
        return packed

    def keep(self, inputs: tuple[Any, ...], outputs: Any) -> "tuple[tuple[Any, ...], Any]":
        """Arguments and outputs as a node keeps them: packed, except for leaves that get a gradient anyway."""
        kept = tuple([_shell(x, self.packed(x._data)) if _can_be_packed(x) else x for x in inputs])
        if isinstance(outputs, tuple):
            return kept, tuple([self.packed(y) if isinstance(y, np.ndarray) else y for y in outputs])
        return kept, self.packed(outputs) if isinstance(outputs, np.ndarray) else outputs


class Packed:
    """What `pack` returned for one array."""

    __slots__ = ("_content", "_dtype", "_shape", "_unpack")

    def __init__(self, unpack: Unpack, content: Any, array: Array) -> None:
        self._unpack, self._content = unpack, content
        self._shape, self._dtype = array.shape, array.dtype

    def array(self) -> Array:
        """The array, unpacked.

        Raises:
            GradientError: What came back is not of the shape and dtype of what was saved.
        """
        value = self._unpack(self._content)
        if not isinstance(value, Tensor) or value.shape != self._shape or value.dtype != self._dtype:
            came = f"{value.shape} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise GradientError(
                f"unpack() of saved_tensors_hooks expects to return the Tensor that was packed, {self._shape} "
                f"{self._dtype}, got {came}"
            )
        return value._data


class Shell(Tensor):
    """A saved argument without its values: it knows its shape, its place in the graph, and how to come back."""

    __slots__ = ("packed",)
    packed: Packed

    def full(self) -> Tensor:
        """The tensor it stands for."""
        return _at_place_of(self, wrap(self.packed.array()))


def _can_be_packed(x: Any) -> bool:
    if not isinstance(x, Tensor) or x.__fallback__ is not None:
        return False
    return x._node is not None or not x.requires_grad


def _shell(x: Tensor, packed: Packed) -> Shell:
    shell = Shell.__new__(Shell)
    shell._data = np.broadcast_to(np.zeros((), x.dtype), x.shape)
    shell.packed = packed
    shell._grad = None
    shell._hooks = None
    _at_place_of(x, shell)
    return shell


def _at_place_of(x: Tensor, result: Tensor) -> Tensor:
    result._node, result._index = x._node, x._index
    result._version, result.requires_grad = x._version, x.requires_grad
    return result


def same_values(x: Tensor) -> Tensor:
    """A tensor of the same class that shares all that `x` knows, except its place in the recorded graph."""
    kind = type(x)
    if kind.__fallback__ is None:
        result = wrap(x._data)
        result._version = x._version
        return result
    result = kind.__new__(kind)
    for base in kind.__mro__:
        slots: Any = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__weakref__", "__dict__") and hasattr(x, slot):
                setattr(result, slot, getattr(x, slot))
    if hasattr(x, "__dict__"):
        result.__dict__.update(x.__dict__)
    result._grad = result._node = result._hooks = None
    result._index = 0
    result.requires_grad = False
    return result


SAVING: ContextVar[Saving | None] = ContextVar("saving", default=None)


@contextmanager
def saved_tensors_hooks(pack: Pack, unpack: Unpack) -> Iterator[None]:
    """A block in which the tape keeps `pack(tensor)` instead of each tensor it saves, and asks `unpack` for it later.

    Leaves that require a gradient (parameters) are not packed: the tape holds them for their gradient in any case.

    Args:
        pack: Called once for a tensor when it is first saved; returns anything.
        unpack: Called on the way back with what `pack` returned; returns the tensor, its values equal.

    Example:
        >>> with saved_tensors_hooks(lambda x: zlib.compress(x.numpy()), decompress):
        ...     loss = model(x).sum()
        >>> loss.backward()
    """
    token = SAVING.set(Saving(pack, unpack))
    try:
        yield
    finally:
        SAVING.reset(token)
