"""Interception: primitives on tensors of a class that defines `__fallback__`, and what the tape keeps of the result."""

from typing import TYPE_CHECKING, Any

from .context import RECORDING
from .dtype import is_inexact
from .errors import DtypeError
from .node import Node, output_of
from .random import Key
from .saved import same_values
from .tensor import Tensor

if TYPE_CHECKING:
    from .primitive import Primitive

__all__ = ["intercepted", "record_above"]


def intercepted(primitive: "Primitive", inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What the first class of the inputs that handles this primitive makes of it, in order of priority."""
    kinds: dict[Any, None] = {
        type(x): None for x in inputs if isinstance(x, Tensor | Key) and x.__fallback__ is not None
    }
    for kind in sorted(kinds, key=lambda kind: -kind.__fallback_priority__):
        handler = kind.__fallback__
        result = NotImplemented if handler is None else handler(primitive, inputs, attributes)
        if result is not NotImplemented:
            return record_above(primitive, inputs, attributes, result)
    names = ", ".join(kind.__name__ for kind in kinds)
    raise DtypeError(f"'{primitive.name}' is not implemented by {names}; handle it in __fallback__, or pass a Tensor")


def record_above(primitive: "Primitive", inputs: tuple[Any, ...], attributes: dict[str, Any], result: Any) -> Any:
    """The result that an interception gave, recorded where an argument requires a gradient.

    The node holds the arguments and results as they are, tensors of the intercepting class: the way back is made of
    the same primitives and is intercepted in the same way.
    """
    if not primitive.is_differentiable or not RECORDING.get():
        return result
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(y, Tensor) and is_inexact(y.dtype) for y in outputs):
        return result
    saved: Any = None
    if primitive.saves_output:
        saved = tuple([same_values(y) if isinstance(y, Tensor) else y for y in outputs])
        saved = saved if isinstance(result, tuple) else saved[0]
    node = Node(primitive, inputs, attributes, saved, len(outputs))
    placed = tuple([output_of(y, node, i) if isinstance(y, Tensor) else y for i, y in enumerate(outputs)])
    return placed if isinstance(result, tuple) else placed[0]
