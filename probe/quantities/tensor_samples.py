"""Evenly spread samples of arrays on the host or on a device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..device_results import DeviceResults
from ..kernels import Arrays, values_at

#: Sampled elements of one parameter: their cosine is off by about 1.6 % (one over the root of their number).
MOST: Final = 4096


class Sample(Protocol):
    """A copy of some elements, which may be still on its way.

    Attributes:
        array: The elements once they are there.
    """

    @property
    def array(self) -> NDArray[np.generic]:
        """`(elements,)`."""


@dataclass(frozen=True, slots=True, eq=False)
class _HostSample:
    array: NDArray[np.generic]


def samples_of(arrays: Arrays, device_results: DeviceResults | None = None) -> Iterator[Sample | None]:
    """Yield a copy of every `n`-th element of each array, at most `MOST` of them; None where there is no array.

    Args:
        device_results: Brings those of tensors on a device; without it they are copied to the host, and waited for.
    """
    if device_results is None or not device_results.accepts_requests:
        arrays = arrays.local()
    for row, (address, size, code) in enumerate(zip(arrays.addresses, arrays.sizes, arrays.codes, strict=True)):
        step = max(-(-int(size) // MOST) | 1, 1)
        if device_results is not None and row in arrays.remote:
            yield device_results.fetch(arrays.remote[row].reshape(-1)[::step])
        elif address:
            yield _HostSample(values_at(address, size, code, step).astype(np.float64))
        else:
            yield None


def elements_of(sample: Sample) -> NDArray[np.float64]:
    """Return `(elements,)` of a sample that is there."""
    return sample.array.astype(np.float64, copy=False)
