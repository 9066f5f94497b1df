"""A function of arrays as an operator: registered as a primitive, checked against what it promises."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ops.operands import as_tensor
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..shape import Spec
from ..tensor import Array, Tensor

__all__ = ["custom_op"]

#: Specs of the inputs to the spec of the output.
Infer = Callable[..., Spec]


def custom_op(
    name: str,
    kernel: Callable[..., Any],
    *,
    infer: Infer,
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    out: bool = True,
) -> Callable[..., Tensor]:
    """An operator that computes with a kernel of one's own; it is recorded, compiled and mapped as any primitive.

    Args:
        name: Of the primitive; no other may have it.
        kernel: A function compiled by numba, or any function of arrays: `kernel(*inputs, out)` fills `out`, which has
            the inferred shape and dtype; with `out=False` it returns the result. Inputs are C-contiguous.
        infer: `infer(*specs, **attributes)`: shape and dtype of the result, `Spec(shape, dtype)`.
        vjp: Rules as `Primitive` describes them, made of tensor operations; None for no derivative.
        out: Whether the kernel fills an array that it is given.

    Returns:
        A function of tensors, and of attributes by keyword, which the kernel gets by keyword too.

    Raises:
        NameTaken: A primitive of that name stands already.
    """

    def evaluate(*arrays: Any, **attributes: Any) -> Array:
        given = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
        spec = infer(*(Spec(np.shape(x), np.asarray(x).dtype) for x in given), **attributes)
        if out:
            result = np.empty(spec.shape, spec.dtype)
            kernel(*given, result, **attributes)
            return result
        made = np.asarray(kernel(*given, **attributes))
        if made.shape != spec.shape or made.dtype != spec.dtype:
            raise ShapeError(
                f"the kernel of '{name}' returned {made.shape} {made.dtype}, but infer says {spec.shape} {spec.dtype}"
            )
        return made

    rules = NOT_DIFFERENTIABLE if vjp is None else vjp
    primitive = Primitive(name, evaluate, infer, rules)

    @wraps(kernel, assigned=("__doc__",), updated=())
    def operator(*inputs: Any, **attributes: Any) -> Tensor:
        return primitive(*(as_tensor(x) for x in inputs), **attributes)

    operator.__name__ = operator.__qualname__ = name
    return operator
