"""Element types and how they combine: NumPy's dtypes, with the promotion rules of the deep-learning frameworks.

Between tensors: equal types stay; bool < integers < floats < complex; an integer joined with a float gives *that* float
(never float64, as NumPy would have it); float16 with bfloat16 gives float32; a complex type joined with a float keeps
the precision of the wider one. No integer holds both uint64 and a signed type, so those are refused. Python numbers are
weak: they take the tensor's type, except that a float joined with an integer or bool tensor gives float32, and a
complex number gives the complex type of the tensor's precision.
"""

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .errors import DtypeError

__all__ = [
    "NARROW",
    "Array",
    "Dtype",
    "Number",
    "as_dtype",
    "is_complex",
    "is_floating",
    "is_inexact",
    "promote",
    "promote_scalar",
    "real_dtype",
]

# Every NumPy element type may stand here: it varies at run time, so the scalar type is not narrowed.
Dtype: TypeAlias = np.dtype[Any]
Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = bool | int | float

bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
#: Floats of 16 bits: kernels and sums compute in float32 for them.
NARROW = frozenset({float16, bfloat16})
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

_FLOATING = frozenset({float16, bfloat16, float32, float64})
_COMPLEX = frozenset({complex64, complex128})
_INEXACT = _FLOATING | _COMPLEX
_INTEGERS = (uint8, uint16, uint32, uint64, int8, int16, int32, int64)
_KNOWN = (bool_, *_INTEGERS, float16, bfloat16, float32, float64, complex64, complex128)


def as_dtype(name: npt.DTypeLike) -> Dtype:
    """Return the dtype of that name ("bfloat16" included).

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
    """Return whether elements of this dtype are real floating-point numbers."""
    return dtype in _FLOATING


def is_complex(dtype: Dtype) -> bool:
    """Return whether elements of this dtype are complex numbers."""
    return dtype in _COMPLEX


def is_inexact(dtype: Dtype) -> bool:
    """Return whether tensors of this dtype can have gradients: real and complex floating-point numbers.

    The gradient of a real loss by a complex tensor `a + ib` is `dL/da + i dL/db`, the conjugate Wirtinger derivative
    (PyTorch's convention): a step against it lowers the loss.
    """
    return dtype in _INEXACT


def real_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the real part: that of the components for a complex type, else the type itself."""
    return float32 if dtype == complex64 else float64 if dtype == complex128 else dtype


def _complex_of(dtype: Dtype) -> Dtype:
    return complex128 if dtype in (float64, complex128) else complex64


def promote(a: Dtype, b: Dtype) -> Dtype:
    """Return the dtype of a result computed from tensors of dtypes `a` and `b`.

    Raises:
        DtypeError: uint64 and a signed integer, which no integer type holds together.
    """
    if a == b:
        return a
    if a in _COMPLEX or b in _COMPLEX:
        return promote(_complex_of(a), _complex_of(b)) if a not in _COMPLEX or b not in _COMPLEX else complex128
    a_floats, b_floats = a in _FLOATING, b in _FLOATING
    if a_floats != b_floats:
        return a if a_floats else b
    if a_floats and a.itemsize == b.itemsize:
        return float32
    if a_floats:
        return a if a.itemsize > b.itemsize else b
    joined = np.promote_types(a, b)
    if joined == float64:
        raise DtypeError(f"no integer type holds both {a} and {b}; cast one of the operands")
    return joined


def promote_scalar(a: Dtype, number: Number | complex) -> Dtype:
    """Return the dtype of a result computed from a tensor of dtype `a` and a Python number."""
    if isinstance(number, complex):
        return _complex_of(a)
    if a in _INEXACT:
        return a
    if isinstance(number, bool):
        return a
    if isinstance(number, int):
        return int64 if a == bool_ else a
    return float32
