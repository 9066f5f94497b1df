"""Element types and how they combine: NumPy's dtypes, with the promotion rules of the deep-learning frameworks.

Between tensors: equal types stay; bool < integers < floats; an integer joined with a float gives *that* float (never
float64, as NumPy would have it); float16 with bfloat16 gives float32. Python numbers are weak: they take the tensor's
type, except that a float joined with an integer or bool tensor gives float32.
"""

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .errors import DtypeError

__all__ = ["Dtype", "Number", "as_dtype", "is_floating", "promote", "promote_scalar"]

# Every NumPy element type may stand here, so the scalar type is not narrowed.
Dtype: TypeAlias = np.dtype[Any]
Number: TypeAlias = bool | int | float

bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
bfloat16 = np.dtype(ml_dtypes.bfloat16)

_FLOATING = frozenset({float16, bfloat16, float32, float64})
_KNOWN = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)


def as_dtype(name: npt.DTypeLike) -> Dtype:
    """The dtype of that name ("bfloat16" included).

    Raises:
        DtypeError: The engine has no such element type.
    """
    try:
        found = bfloat16 if name == "bfloat16" else np.dtype(name)
    except TypeError:
        found = None
    if found is None or found not in _KNOWN:
        raise DtypeError(f"no element type {name!r}; use one of {', '.join(str(d) for d in _KNOWN)}")
    return found


def is_floating(dtype: Dtype) -> bool:
    """Whether tensors of this dtype can have gradients."""
    return dtype in _FLOATING


def promote(a: Dtype, b: Dtype) -> Dtype:
    """The dtype of a result computed from tensors of dtypes `a` and `b`."""
    if a == b:
        return a
    a_floats, b_floats = a in _FLOATING, b in _FLOATING
    if a_floats != b_floats:
        return a if a_floats else b
    if a_floats and a.itemsize == b.itemsize:
        return float32
    if a_floats:
        return a if a.itemsize > b.itemsize else b
    return np.promote_types(a, b)


def promote_scalar(a: Dtype, number: Number) -> Dtype:
    """The dtype of a result computed from a tensor of dtype `a` and a Python number."""
    if a in _FLOATING:
        return a
    if isinstance(number, bool):
        return a
    if isinstance(number, int):
        return int64 if a == bool_ else a
    return float32
