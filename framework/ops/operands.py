"""Operands of element-wise operations: tensors and Python numbers brought to one dtype."""

from typing import Any

import numpy as np

from ..dtype import Dtype, bfloat16, float32, is_floating, promote, promote_scalar
from ..errors import DtypeError
from ..primitive import Primitive
from ..shape import Spec, broadcast_shapes
from ..tensor import Array, Tensor, TensorLike, as_array, wrap

__all__ = ["as_floating", "as_tensor", "cast_to", "infer_broadcast", "infer_same", "pair"]


def infer_same(x: Spec, **_: object) -> Spec:
    """The spec of an element-wise function of one tensor."""
    return x


def infer_broadcast(a: Spec, b: Spec) -> Spec:
    """The spec of an element-wise function of two tensors of one dtype, one of which may be a number."""
    shape = broadcast_shapes(a.shape, b.shape)
    return Spec(shape, a.dtype if a.dtype == b.dtype or a.shape or not b.shape else b.dtype)


def _cast(x: Array, *, dtype: Dtype) -> Array:
    return x.astype(dtype)


_cast_primitive: Primitive = Primitive(
    "cast",
    _cast,
    lambda x, *, dtype: Spec(x.shape, dtype),
    (lambda g, _, x, *, dtype: cast_to(g, x.dtype) if is_floating(x.dtype) else None,),
)


def cast_to(x: Tensor, dtype: Dtype) -> Tensor:
    """The tensor in that dtype; itself if it has it already."""
    if x._data.dtype == dtype:
        return x
    if not is_floating(dtype):
        return wrap(x._data.astype(dtype))
    return _cast_primitive(x, dtype=dtype)


def as_tensor(x: object) -> Tensor:
    """The tensor itself, or a new one around an array, a number, a list."""
    return x if isinstance(x, Tensor) else wrap(as_array(x))


def as_floating(x: object) -> Tensor:
    """The tensor itself if it is floating-point, else in float32."""
    tensor = as_tensor(x)
    return tensor if is_floating(tensor._data.dtype) else cast_to(tensor, float32)


def pair(a: TensorLike, b: TensorLike) -> tuple[Any, Any]:
    """Both operands, brought to one dtype; a Python number stays one where NumPy treats it as weak."""
    if isinstance(a, Tensor):
        if isinstance(b, Tensor):
            if a._data.dtype is b._data.dtype:
                return a, b
            dtype = promote(a._data.dtype, b._data.dtype)
            return cast_to(a, dtype), cast_to(b, dtype)
        return _with_number(a, b)
    if isinstance(b, Tensor):
        b, a = _with_number(b, a)
        return a, b
    return pair(as_tensor(a), as_tensor(b))


def _with_number(x: Tensor, number: Any) -> tuple[Tensor, Any]:
    """The tensor and its partner, which is a number or becomes a tensor."""
    if isinstance(number, np.generic):
        number = number.item()  # a NumPy scalar is as weak as a Python one: it must not widen a tensor
    if not isinstance(number, bool | int | float):
        if not isinstance(number, np.ndarray | list | tuple):
            raise DtypeError(f"an operand must be a tensor, an array or a number, got {type(number).__name__}")
        return pair(x, as_tensor(number))
    dtype = promote_scalar(x._data.dtype, number)
    if dtype != x._data.dtype:
        x = cast_to(x, dtype)
    if dtype == bfloat16:
        return x, wrap(np.asarray(number, dtype=dtype))
    return x, number
