"""Operands of element-wise operations: tensors and Python numbers brought to one dtype."""

from typing import Any, overload

import numpy as np

from ..dtype import Dtype, bfloat16, float32, is_complex, is_inexact, promote, promote_scalar
from ..errors import DtypeError
from ..primitive import Primitive
from ..specs import Spec, broadcast_shapes
from ..symbolic import Dim, Quotient
from ..tensor import Array, Tensor, TensorLike, as_array, wrap

__all__ = [
    "array_conjugate",
    "as_floating",
    "as_real",
    "as_tensor",
    "cast_to",
    "conjugate",
    "infer_broadcast",
    "infer_same",
    "pair",
]


def infer_same(x: Spec, **_: object) -> Spec:
    """Return the spec of an element-wise function of one tensor."""
    return x


def infer_broadcast(a: Spec, b: Spec) -> Spec:
    """Return the spec of an element-wise function of two tensors of one dtype, one of which may be a number."""
    shape = broadcast_shapes(a.shape, b.shape)
    return Spec(shape, b.dtype if a.weak else a.dtype)


_conj: Primitive = Primitive("conj", np.conjugate, infer_same, (lambda g, _, x: _conj(g),))


def conjugate(x: Any) -> Any:  # a tensor or a number, and the same comes back
    """Return the complex conjugate; a real tensor or number is returned as it is."""
    if isinstance(x, Tensor):
        return _conj(x) if is_complex(x.dtype) else x
    return x.conjugate()


def array_conjugate(x: Any) -> Any:
    """Return what `conjugate` is for tensors: of an array or a number."""
    kind = x.dtype.kind if isinstance(x, np.ndarray) else "c"
    return x.conjugate() if kind == "c" else x


def _cast(x: Array, *, dtype: Dtype) -> Array:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    return x.astype(dtype)


_cast_primitive: Primitive = Primitive(
    "cast",
    _cast,
    lambda x, *, dtype: Spec(x.shape, dtype),
    (lambda g, _, x, *, dtype: cast_to(g, x.dtype) if is_inexact(x.dtype) and is_inexact(dtype) else None,),
)


def cast_to(x: Tensor, dtype: Dtype) -> Tensor:
    """Return the tensor in that dtype, itself if it has it already; of complex numbers a real type keeps the real part.

    No gradient flows through an integer or bool type.
    """
    return x if x.dtype == dtype else _cast_primitive(x, dtype=dtype)


def as_tensor(x: object) -> Tensor:
    """Return the tensor itself, or a new one around an array, a number, a list."""
    return x if isinstance(x, Tensor) else wrap(as_array(x))


def as_floating(x: object) -> Tensor:
    """Return the tensor itself if it is floating-point, real or complex, else in float32."""
    tensor = as_tensor(x)
    return tensor if is_inexact(tensor.dtype) else cast_to(tensor, float32)


def as_real(x: object, name: str) -> Tensor:
    """Return the tensor itself if it is real floating-point, else in float32; `name` is the operation that asks.

    Raises:
        DtypeError: The tensor is complex.
    """
    tensor = as_floating(x)
    if is_complex(tensor.dtype):
        raise DtypeError(f"'{name}' expects a real tensor, got {tensor.dtype}; take its real, imag or abs first")
    return tensor


@overload
def pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def pair(a: TensorLike, b: TensorLike) -> tuple[TensorLike, TensorLike]: ...
def pair(a: TensorLike, b: TensorLike) -> tuple[TensorLike, TensorLike]:
    """Return both operands, brought to one dtype; a Python number stays one where NumPy treats it as weak."""
    if isinstance(a, Tensor):
        if isinstance(b, Tensor):
            if a.dtype is b.dtype:
                return a, b
            dtype = promote(a.dtype, b.dtype)
            return cast_to(a, dtype), cast_to(b, dtype)
        return _with_number(a, b)
    if isinstance(b, Tensor):
        b, a = _with_number(b, a)
        return a, b
    return pair(as_tensor(a), as_tensor(b))


def _with_number(x: Tensor, number: object) -> tuple[Tensor, TensorLike]:
    """Return the tensor and its partner, which is a number or becomes a tensor."""
    if isinstance(number, np.generic):
        number = number.item()  # a NumPy scalar is as weak as a Python one: it must not widen a tensor
    if isinstance(number, Dim | Quotient):
        return _with_length(x, number)
    if not isinstance(number, bool | int | float | complex):
        if not isinstance(number, np.ndarray | list | tuple):
            raise DtypeError(f"an operand must be a tensor, an array or a number, got {type(number).__name__}")
        return pair(x, as_tensor(number))
    dtype = promote_scalar(x.dtype, number)
    if dtype != x.dtype:
        x = cast_to(x, dtype)
    if dtype == bfloat16:
        return x, wrap(np.asarray(number, dtype=dtype))
    return x, number


def _with_length(x: Tensor, length: Dim | Quotient) -> tuple[Tensor, Any]:
    """Return the tensor and a number that depends on symbolic lengths, as weak as the integer or float that it will
    be."""
    dtype = promote_scalar(x.dtype, 0 if isinstance(length, Dim) else 0.0)
    if dtype == bfloat16:
        raise DtypeError(
            f"bfloat16 cannot be joined with {length!r}, a number that depends on symbolic lengths; cast first"
        )
    return cast_to(x, dtype), length
