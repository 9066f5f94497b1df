"""What functions of LAPACK need: types they know, errors in words, adjoints."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtype import NARROW
from ..errors import NumericalError, ShapeError
from ..shape import Spec
from ..tensor import Array, Tensor
from .arithmetic import multiply
from .operands import conjugate


def lapack(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of NumPy's linalg for all floating-point dtypes, its failure an error of ours."""

    def evaluate(*arrays: Array, **attributes: Any) -> Any:
        dtype = arrays[0].dtype
        wide = [x.astype(np.float32) for x in arrays] if dtype in NARROW else arrays
        try:
            found = function(*wide, **attributes)
        except np.linalg.LinAlgError as error:
            if "square" in str(error) or "dimension" in str(error):
                raise
            raise NumericalError(f"{str(error)[:1].lower()}{str(error)[1:]}") from error
        if isinstance(found, tuple):
            return tuple(np.asarray(x).astype(dtype) if dtype in NARROW else np.asarray(x) for x in found)
        return np.asarray(found).astype(dtype) if dtype in NARROW else np.asarray(found)

    return evaluate


def check_square(x: Spec, name: str) -> None:
    """Nothing, if the last two axes are as long as each other."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"'{name}' expects square matrices (..., n, n), got {x.shape}")


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of the last two axes."""
    turned: Tensor = conjugate(x.swapaxes(-1, -2))
    return turned


def hermitian(x: Tensor) -> Tensor:
    """`(x + x^H) / 2`."""
    return multiply(x + adjoint(x), 0.5)


def infer_square(name: str) -> Callable[..., Spec]:
    """An inference that expects square matrices."""

    def infer(x: Spec, **_: object) -> Spec:
        check_square(x, name)
        return x

    return infer
