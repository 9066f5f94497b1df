"""Complex numbers and their parts.

The gradient of a real loss by a complex tensor `a + ib` is `dL/da + i dL/db` (see `dtype.is_inexact`), so the rule of a
holomorphic function multiplies by the conjugate of its derivative.
"""

import numpy as np

from ..dtype import Dtype, complex64, complex128, float64, is_complex, real_dtype
from ..errors import DtypeError
from ..primitive import Primitive
from ..specs import Spec, broadcast_shapes
from ..tensor import Array, Tensor, TensorLike, method
from .create import zeros_like
from .operands import as_floating, as_tensor, cast_to, conjugate, pair
from .reduce import sum_to


def _complex_dtype(dtype: Dtype) -> Dtype:
    return complex128 if dtype == float64 else complex64


def _complex_of(a: Array, b: Array) -> Array:
    result = np.empty(np.broadcast_shapes(a.shape, b.shape), _complex_dtype(a.dtype))
    result.real, result.imag = a, b
    return result


_complex: Primitive = Primitive(
    "complex",
    _complex_of,
    lambda a, b: Spec(broadcast_shapes(a.shape, b.shape), _complex_dtype(a.dtype)),
    (
        lambda g, _, a, b: cast_to(sum_to(_real(g), a), a.dtype),
        lambda g, _, a, b: cast_to(sum_to(_imag(g), b), b.dtype),
    ),
)
_real: Primitive = Primitive(
    "real",
    lambda z: z.real.copy(),
    lambda z: Spec(z.shape, real_dtype(z.dtype)),
    (lambda g, _, z: cast_to(g, z.dtype),),
)
_imag: Primitive = Primitive(
    "imag",
    lambda z: z.imag.copy(),
    lambda z: Spec(z.shape, real_dtype(z.dtype)),
    (lambda g, _, z: cast_to(g, z.dtype) * 1j,),
)


def complex(a: TensorLike, b: TensorLike) -> Tensor:
    """Return `a + ib` from two real tensors that broadcast; complex128 for float64, else complex64."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = as_tensor(a)
    first, second = (as_floating(x) for x in pair(a, b))
    if is_complex(first.dtype):
        raise DtypeError(f"'complex' expects real tensors, got {first.dtype}")
    return _complex(*pair(first, cast_to(second, first.dtype)))


@method
def real(z: Tensor) -> Tensor:
    """Return the real part; of a real tensor the tensor itself."""
    z = as_tensor(z)
    return _real(z) if is_complex(z.dtype) else z


@method
def imag(z: Tensor) -> Tensor:
    """Return the imaginary part; zeros of a real tensor."""
    z = as_tensor(z)
    return _imag(z) if is_complex(z.dtype) else zeros_like(z)


@method
def conj(z: Tensor) -> Tensor:
    """Return the complex conjugate; of a real tensor the tensor itself."""
    conjugated: Tensor = conjugate(as_tensor(z))
    return conjugated
