"""Inputs of a model that lie on the host, read where they lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..access.tensors import Access, Place, Tensor
from ..kernels import FLOAT32, measure_checked, readable, values_at
from ..quantities.checksums import checksum_at, checksum_from
from ..recording.call_rows import Row
from ..recording.recorder import Recorder
from .device_batches import stride_of

_BYTES = (4, 8, 2, 2)  # of an element, by its dtype code


class HostInput:
    """One input.

    Attributes:
        shape: As the model is given it.
        array: Its values without gaps; None of floats that are read where they lie.
        is_token: Whether it holds whole numbers of four bytes or more.
    """

    __slots__ = ("_address", "_bytes", "_place", "array", "is_token", "shape")

    def __init__(self, tensor: Tensor, access: Access) -> None:
        self.array: NDArray[Any] | None = None
        self.is_token = False
        self._place: Place | None = access.plain(tensor)
        if self._place is not None:
            self.shape: Sequence[int] = tensor.shape
            self._address, size, code = self._place
            self._bytes = size * _BYTES[code]
            return
        self.array = np.ascontiguousarray(access.array(tensor))
        self.shape = self.array.shape
        self.is_token = self.array.dtype.kind in "iu" and self.array.dtype.itemsize >= 4
        self._address, self._bytes = self.array.ctypes.data, self.array.nbytes

    def checksum(self) -> int:
        """Of all bytes."""
        return checksum_at(self._address, self._bytes)

    @property
    def has_statistics(self) -> bool:
        """Whether its elements are real numbers."""
        array = self.array
        return array is None or array.dtype.kind in "biuf" or array.dtype.name == "bfloat16"

    def measure(self, recorder: Recorder, row: Row) -> None:
        """Nothing; the row has the statistics of all elements, or of a sample of very many."""
        place = self._place
        if place is not None and stride_of(place[1]) == 1:
            recorder.measure(*place, row.address)
        else:
            data, code = readable(self._sample())
            recorder.measure(data.ctypes.data or 1, data.size, code, row.address)
        row.present[row.index] = 1

    def measure_checked(self, recorder: Recorder, row: Row) -> int:
        """The checksum; the row has the statistics, for which memory is read once where both are of all elements."""
        place = self._place
        if place is None or place[2] != FLOAT32 or recorder.more.flags or stride_of(place[1]) != 1:
            self.measure(recorder, row)
            return self.checksum()
        mixed = measure_checked(place[0], place[1], row.address)
        row.present[row.index] = 1
        return checksum_from(mixed, self._address, self._bytes)

    def _sample(self) -> NDArray[Any]:
        if self._place is not None:
            return values_at(*self._place, stride_of(self._place[1]))
        assert self.array is not None, "what is not read where it lies is an array"
        stride = stride_of(self.array.size)
        return self.array if stride == 1 else self.array.reshape(-1)[::stride]
