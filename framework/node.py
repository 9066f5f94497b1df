"""Nodes: what the tape keeps of one application of a primitive, until the way back has used it."""

from itertools import count
from typing import TYPE_CHECKING, Any

from .dtype import is_inexact
from .errors import ChangedTensorError, FreedGraphError
from .hooks import Hooks
from .saved import SAVING, Packed, Shell, same_values
from .tensor import Tensor, wrap

if TYPE_CHECKING:
    from .primitive import Primitive

__all__ = ["Node", "output_of"]

_order = count(1)


class Node:
    """One recorded application of a primitive: what its vjp needs on the way back.

    Attributes:
        eager_vjp: The primitive's rule from arrays to arrays, where this node keeps arrays; else None.
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
        primitive: "Primitive",
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        outputs: Any,  # arrays (tensors of a class that intercepts primitives) or a tuple of them, None if not saved
        size: int,
    ) -> None:
        saving = SAVING.get()
        self.is_packed = saving is not None
        if saving is not None:
            inputs, outputs = saving.keep(inputs, outputs)
        self.primitive = primitive
        self.inputs: tuple[Any, ...] | None = inputs
        self.attributes = attributes
        self.outputs: Any = outputs
        self.size = size
        self.order = next(_order)
        self.hooks: dict[int, Hooks] | None = None
        self.eager_vjp: Any = None
        self.versions = [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]

    def __lt__(self, other: "Node") -> bool:
        return self.order > other.order  # the latest first: the order of the way back, as a heap wants it

    def hooks_of(self, index: int) -> Hooks:
        """The hooks on output `index`."""
        if self.hooks is None:
            self.hooks = {}
        return self.hooks.setdefault(index, {})

    def saved_inputs(self) -> tuple[Any, ...]:
        """The arguments, if they are still here and unchanged."""
        inputs = self.inputs
        if inputs is None:
            raise FreedGraphError(
                f"the graph through '{self.primitive.name}' was freed by an earlier backward pass; "
                f"pass retain_graph=True to that one, or compute the result again"
            )
        if self.versions != [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]:
            raise self._changed(inputs)
        if self.is_packed:
            return tuple([x.full() if type(x) is Shell else x for x in inputs])
        return inputs

    def _changed(self, inputs: tuple[Any, ...]) -> ChangedTensorError:
        """The error that names the argument that was changed."""
        versions = [x._version[0] if isinstance(x, Tensor) else 0 for x in inputs]
        position = next(i for i, version in enumerate(self.versions) if version != versions[i])
        x = inputs[position]
        name = getattr(x, "name", "")
        who = f"argument {position} of '{self.primitive.name}'{f' (parameter {name!r})' if name else ''}"
        return ChangedTensorError(
            f"{who}, shape {x.shape}, was changed in place after it was used; "
            f"go backward before the change, or compute the result again"
        )

    def saved_output(self) -> Any:  # a tensor, a tuple of tensors, or None
        """The outputs as tensors that belong to this node, where the primitive saves them."""
        if self.outputs is None:
            return None
        if self.size == 1 and not isinstance(self.outputs, tuple):
            return output_of(self.outputs, self, 0)
        return tuple(output_of(array, self, index) for index, array in enumerate(self.outputs))

    def free(self) -> None:
        """Nothing; what was saved is let go."""
        self.inputs = None
        self.outputs = None


def output_of(value: Any, node: Node, index: int) -> Tensor:
    """A tensor around an array (packed or not), or of the values of a tensor, at its place in the graph."""
    if isinstance(value, Tensor):
        result = same_values(value)
    else:
        result = wrap(value.array() if isinstance(value, Packed) else value)
    result._node = node
    result._index = index
    result.requires_grad = is_inexact(result.dtype)
    return result
