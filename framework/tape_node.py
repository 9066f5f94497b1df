"""Tape nodes: what the tape keeps of one application of a primitive until the backward pass has used it.

A node keeps its arguments for the primitive's vjp rule. Inside `saved_tensors_hooks` it keeps what `pack` made of them
(a file name, compressed bytes, None) and, as its arguments, placeholders: tensors of the same shape and position in the
graph that hold no memory.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from .dtype import is_inexact
from .errors import ChangedTensorError, FreedGraphError, GradientError
from .hooks import AutogradNode, Hooks
from .tensor import Array, Tensor, wrap

__all__ = ["TapeNode", "saved_tensors_hooks"]

Pack = Callable[[Tensor], object]
Unpack = Callable[[Any], Tensor]

#: The gradient of an operation's output, or one for each of several outputs, None where no result used it.
Gradient: TypeAlias = Tensor | Sequence[Tensor | None]


class SavedTensors:
    """The hooks of one `saved_tensors_hooks` block; a tensor that several nodes save is packed once."""

    __slots__ = ("_packed", "pack", "unpack")

    def __init__(self, pack: Pack, unpack: Unpack) -> None:
        self.pack, self.unpack = pack, unpack
        self._packed: dict[int, tuple[weakref.ref[Array], PackedTensor]] = {}

    def packed(self, array: Array) -> "PackedTensor":
        """Pack an array, or return what was packed before."""
        key = id(array)
        known = self._packed.get(key)
        if known is not None and known[0]() is array:
            return known[1]
        packed = PackedTensor(self.unpack, self.pack(wrap(array)), array)
        self._packed[key] = (weakref.ref(array, lambda _: self._packed.pop(key, None)), packed)
        return packed

    def save(self, inputs: tuple[object, ...], outputs: object) -> "tuple[tuple[object, ...], object]":
        """Pack the arguments and outputs of a node, except for leaves that get a gradient anyway."""
        saved = tuple([_placeholder(x, self.packed(x._data)) if _can_be_packed(x) else x for x in inputs])
        if isinstance(outputs, tuple):
            return saved, tuple([self.packed(y) if isinstance(y, np.ndarray) else y for y in outputs])
        return saved, self.packed(outputs) if isinstance(outputs, np.ndarray) else outputs


class PackedTensor:
    """What `pack` returned for one array."""

    __slots__ = ("_content", "_dtype", "_shape", "_unpack")

    def __init__(self, unpack: Unpack, content: object, array: Array) -> None:
        self._unpack, self._content = unpack, content
        self._shape, self._dtype = array.shape, array.dtype

    def array(self) -> Array:
        """Unpack the array.

        Raises:
            GradientError: `unpack` returned another shape or dtype than was saved.
        """
        value = self._unpack(self._content)
        if not isinstance(value, Tensor) or value.shape != self._shape or value.dtype != self._dtype:
            got = f"{value.shape} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise GradientError(
                f"unpack() of saved_tensors_hooks expects to return the Tensor that was packed, {self._shape} "
                f"{self._dtype}, got {got}"
            )
        return value._data


class SavedPlaceholder(Tensor):
    """A packed argument without its values: it has the shape, the position in the graph, and the packed values."""

    __slots__ = ("packed",)
    packed: PackedTensor

    def unpacked(self) -> Tensor:
        """Restore the tensor that was packed."""
        return _copy_position(self, wrap(self.packed.array()))


def _can_be_packed(x: object) -> TypeGuard[Tensor]:
    if not isinstance(x, Tensor) or x.__fallback__ is not None:
        return False
    return x._node is not None or not x.requires_grad


def _placeholder(x: Tensor, packed: PackedTensor) -> SavedPlaceholder:
    placeholder = SavedPlaceholder.__new__(SavedPlaceholder)
    placeholder._data = np.broadcast_to(np.zeros((), x.dtype), x.shape)
    placeholder.packed = packed
    placeholder._grad = None
    placeholder._hooks = None
    _copy_position(x, placeholder)
    return placeholder


def _copy_position(x: Tensor, result: Tensor) -> Tensor:
    result._node, result._index = x._node, x._index
    result._version, result.requires_grad = x._version, x.requires_grad
    return result


SAVING: ContextVar[SavedTensors | None] = ContextVar("saving", default=None)


@contextmanager
def saved_tensors_hooks(pack: Pack, unpack: Unpack) -> Iterator[None]:
    """Make the tape keep `pack(tensor)` instead of each tensor that it saves inside the block; `unpack` restores it.

    Leaves that require a gradient (parameters) are not packed: the tape holds them for their gradient in any case.

    Args:
        pack: Called once for a tensor when it is first saved; returns anything.
        unpack: Called in the backward pass with what `pack` returned; returns the tensor, its values equal.

    Example:
        >>> with saved_tensors_hooks(lambda x: zlib.compress(x.numpy()), decompress):
        ...     loss = model(x).sum()
        >>> loss.backward()
    """
    token = SAVING.set(SavedTensors(pack, unpack))
    try:
        yield
    finally:
        SAVING.reset(token)


class Differentiable(Protocol):
    """An operation that a tape node can record: a primitive, or a function with its own backward."""

    name: str

    def pull_back(
        self, node: "TapeNode", inputs: tuple[object, ...], needs: Sequence[bool], g: Gradient
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the arguments that need one, from the gradients `g` of the outputs."""


_order = count(1)


class TapeNode(AutogradNode):
    """One recorded application of a primitive: what its vjp needs in the backward pass.

    Attributes:
        eager_vjp: The primitive's rule from arrays to arrays, where this node saves arrays; else None.
        size: Number of outputs.
        order: Larger than those of all nodes before it.
    """

    __slots__ = (
        "attributes",
        "eager_vjp",
        "hooks",
        "inputs",
        "is_packed",
        "order",
        "outputs",
        "primitive",
        "size",
        "versions",
    )

    def __init__(
        self,
        primitive: Differentiable,
        inputs: tuple[object, ...],
        attributes: dict[str, Any],
        outputs: Any,  # arrays (tensors of a class that intercepts primitives) or a tuple of them, None if not saved
        size: int,
    ) -> None:
        saving = SAVING.get()
        self.is_packed = saving is not None
        if saving is not None:
            inputs, outputs = saving.save(inputs, outputs)
        self.primitive: Differentiable = primitive
        self.inputs: tuple[object, ...] | None = inputs
        self.attributes = attributes
        self.outputs: Any = outputs
        self.size = size
        self.order = next(_order)
        self.hooks: dict[int, Hooks] | None = None
        self.eager_vjp: Any = None
        self.versions = [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]

    def hooks_of(self, index: int) -> Hooks:
        """Return the hooks on the gradient of output `index`, to which more can be added."""
        if self.hooks is None:
            self.hooks = {}
        return self.hooks.setdefault(index, {})

    def saved_inputs(self) -> tuple[object, ...]:
        """Return the arguments, if they are saved and unchanged.

        Raises:
            FreedGraphError: An earlier backward pass has freed them.
            ChangedTensorError: One of them was changed in place.
        """
        inputs = self.inputs
        if inputs is None:
            raise FreedGraphError(
                f"the graph through '{self.primitive.name}' was freed by an earlier backward pass; "
                f"pass retain_graph=True to that one, or compute the result again"
            )
        if self.versions != [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]:
            raise self._changed(inputs)
        if self.is_packed:
            return tuple([x.unpacked() if type(x) is SavedPlaceholder else x for x in inputs])
        return inputs

    def _changed(self, inputs: tuple[Any, ...]) -> ChangedTensorError:
        """Return the error that names the changed argument."""
        versions = [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]
        position = next(i for i, version in enumerate(self.versions) if version != versions[i])
        x = inputs[position]
        name = getattr(x, "name", "")
        argument = f"argument {position} of '{self.primitive.name}'{f' (parameter {name!r})' if name else ''}"
        return ChangedTensorError(
            f"{argument}, shape {x.shape}, was changed in place after it was used; "
            f"go backward before the change, or compute the result again"
        )

    def saved_output(self) -> Any:  # a tensor, a tuple of tensors, or None
        """Return the outputs as tensors that belong to this node, where the primitive saves them."""
        if self.outputs is None:
            return None
        if self.size == 1 and not isinstance(self.outputs, tuple):
            return attach_output(self.outputs, self, 0)
        return tuple(attach_output(array, self, index) for index, array in enumerate(self.outputs))

    def free(self) -> None:
        """Release what was saved."""
        self.inputs = None
        self.outputs = None


def attach_output(value: Array | Tensor | PackedTensor, node: TapeNode, index: int) -> Tensor:
    """Make output `index` of a node: a tensor around an array (packed or not), or an alias of a tensor."""
    if isinstance(value, Tensor):
        result = unrecorded_alias(value)
    else:
        result = wrap(value.array() if isinstance(value, PackedTensor) else value)
    result._node = node
    result._index = index
    result.requires_grad = is_inexact(result.dtype)
    return result


def unrecorded_alias(x: Tensor) -> Tensor:
    """Return a tensor of the same class that shares everything with `x` except its position in the recorded graph."""
    kind = type(x)
    if kind.__fallback__ is None:
        result = wrap(x._data)
        result._version = x._version
        return result
    result = kind.__new__(kind)
    for base in kind.__mro__:
        slots: str | tuple[str, ...] = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__weakref__", "__dict__") and hasattr(x, slot):
                setattr(result, slot, getattr(x, slot))
    if hasattr(x, "__dict__"):
        result.__dict__.update(x.__dict__)
    result._grad = result._node = result._hooks = None
    result._index = 0
    result.requires_grad = False
    return result
