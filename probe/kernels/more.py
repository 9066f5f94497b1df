"""Statistics on request: one more pass over an array that has just been measured, in chunks that stay in the cache.

    sum         of the finite elements, in float64
    abs_max     largest magnitude of the finite elements
    kurtosis    fourth moment around the mean over the squared variance, in float64; 3 for a normal distribution
    checksum    sum of a 64-bit mix of every element's bits, modulo 2^64, of which the upper 53 bits are kept: exact
                in float64, the same in any order, another when an element changes by a bit (but for a chance of 2^-53)
    quantiles   the values at ranks floor(q (n - 1)) of the n finite elements, from a histogram with 64 buckets to the
                octave: off by at most 1/128 of the value where its magnitude is in 1.2e-38 ... 3.4e38, by at most
                2e-40 below; never outside of minimum and maximum

Reference:
    Masson, Rim and Lee 2019, DDSketch, arXiv:1908.10693 (buckets of relative width); Steele, Lea and Flood 2014 (mix).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .cpu import STATISTICS, measure
from .machine_code import Kernel
from .raw_memory import Floats, Ints

__all__ = [
    "BUCKETS",
    "COLUMNS",
    "DROPPED",
    "FLAGS",
    "MORE",
    "NO_MORE",
    "QUANTILES",
    "More",
    "measure_checked",
    "measure_more",
    "measure_more_many",
]

#: The quantiles by their columns.
QUANTILES: Final = {"q01": 0.01, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "q99": 0.99}

#: The statistics on request and the columns that each fills. `_write` fills them in this order, and so does
#: `device_statistics.requested_on_device` on a device.
MORE: Final[dict[str, tuple[str, ...]]] = {
    "sum": ("sum",),
    "abs_max": ("abs_max",),
    "kurtosis": ("kurtosis",),
    "checksum": ("checksum",),
    "quantiles": tuple(QUANTILES),
}
#: The flag of each, as the kernels take it.
FLAGS: Final = {name: 1 << bit for bit, name in enumerate(MORE)}
#: Columns that all of them fill; buckets that quantiles are counted in; bits that are dropped of a checksum.
COLUMNS: Final = sum(len(columns) for columns in MORE.values())
BUCKETS: Final = 1 << 15
DROPPED: Final = np.uint64(11)
_QUANTILES: Final = FLAGS["quantiles"]


@dataclass(frozen=True, slots=True)
class More:
    """Which of them a monitor wants.

    Args:
        flags: As the kernels take them; 0 for none.
        columns: Behind the ten of every row.
    """

    flags: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> "More":
        """Return the statistics of these names, in the order of `MORE`."""
        wanted = [name for name in MORE if name in names]
        return cls(
            sum(FLAGS[name] for name in wanted),
            tuple(column for name in wanted for column in MORE[name]),
        )

    def kernel(self) -> Callable[[int, int, int, int], None]:
        """`measure(address, size, code, out_address)` that fills a row with the ten statistics and with these."""
        if not self.flags:
            return measure
        flags, column = self.flags, len(STATISTICS)

        def measure_all(address: int, size: int, code: int, out_address: int) -> None:
            measure(address, size, code, out_address)
            measure_more(address, size, code, out_address, column, flags)

        return measure_all


#: No statistics on request.
NO_MORE: Final = More()

#: `measure_checked(address, size, out_address)` writes the ten statistics of float32 to the row at `out_address` and
#: returns the 53-bit mix of the eight-byte words; the last element of an odd number is in no word.
measure_checked: Final = Kernel("requested", "measure_checked", "q", "qqq")

_measure_more: Final = Kernel("requested", "measure_more", "v", "qqqqqqqq")
_measure_more_many: Final = Kernel("requested", "measure_more_many", "v", "qqqqqqqqqq")


def measure_more(address: int, size: int, code: int, out_address: int, column: int, flags: int) -> None:
    """Add the statistics of the flags to the row at `out_address`, whose first ten `measure` has filled.

    Args:
        address, size, code: The array, as `measure` takes it.
        out_address: Where the row lies.
        column: Column of the first of them.
        flags: Of `More`.
    """
    counts = _room(flags)
    _measure_more(address, size, code, out_address, column, flags, counts.ctypes.data, counts.size)


def measure_more_many(addresses: Ints, sizes: Ints, codes: Ints, out: Floats, column: int, flags: int) -> None:
    """Add the statistics of the flags to the row `out[i]` of every array whose address is not 0."""
    counts = _room(flags)
    columns = addresses.ctypes.data, sizes.ctypes.data, codes.ctypes.data
    rows = out.ctypes.data, out.strides[0], column, flags
    _measure_more_many(addresses.size, *columns, *rows, counts.ctypes.data, counts.size)


def _room(flags: int) -> NDArray[np.uint32]:
    """Return room to count values in for quantiles, if they are wanted."""
    return np.empty(BUCKETS if flags & _QUANTILES else 0, np.uint32)
