"""Python's own protocols: what `len`, `iter`, `bool`, `int`, `float` and NumPy see of a tensor."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import DtypeError, ShapeError

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Protocols"]


class Protocols:
    """A tensor as a sequence, as a number, and as an array."""

    __slots__ = ()

    if TYPE_CHECKING:
        _data: npt.NDArray[Any]

        def item(self) -> bool | int | float:
            """As `Tensor.item`."""

        def __getitem__(self, index: object) -> Tensor: ...

    def __len__(self) -> int:
        if not self._data.ndim:
            raise ShapeError("a tensor of no axes has no length; use .size")
        return len(self._data)

    def __iter__(self) -> "Iterator[Tensor]":
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu":
            raise DtypeError(f"an index must be an integer tensor, got {self._data.dtype}")
        return int(self.item())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy:
            return np.array(self._data, dtype=dtype)
        if copy is False and dtype is not None and np.dtype(dtype) != self._data.dtype:
            raise ValueError(f"a view of {self._data.dtype} as {np.dtype(dtype)} needs a copy; pass copy=None or True")
        return np.asarray(self._data, dtype=dtype)  # NumPy 1 knows no copy=None
