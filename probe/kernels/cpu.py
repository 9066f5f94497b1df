"""Ten statistics in one pass over memory: of one array, of all arrays of a step, or of weights and their updates.

Arrays are given by address, size and dtype code: the caller keeps them alive and contiguous. An array is read in chunks
that stay in the first-level cache, so that its memory is read once. Two loops run over a chunk, each of which LLVM
turns into vector code of one width; a single loop would be as narrow as its widest number:

    sums        sum and sum of squares in float64, as though all were finite: the squares of float32 do not leave
                float64, and neither NaN nor an infinity leaves them finite
    ends        smallest, largest and zeros, in the elements' own type

Two more loops follow only where they are needed:

    careful     something was not finite: count what is what, and sum the finite values alone
    centred     the mean is large against the deviation: sum squares around the mean, so that nothing cancels

Chunks are joined by the update of Chan, Golub and LeVeque (1979), and the norm follows as sqrt(m2 + n mean^2) without
cancellation.
"""

from typing import Final

from .machine_code import Kernel
from .raw_memory import Floats, Ints

#: The columns of a row, in order; minimum, maximum, mean, std and norm are those of the finite elements.
STATISTICS: Final = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")

#: `measure(address, size, code, out_address)` writes the statistics of one array as ten float64 to `out_address`.
#: The address is that of its first element, the size the number of elements, 0 or more, the code that of its dtype.
measure: Final = Kernel("statistics", "measure", "v", "qqqq")

_measure_many: Final = Kernel("statistics", "measure_many", "d", "qqqqqq")
_measure_updates: Final = Kernel("statistics", "measure_updates", "v", "qqqqqqqqqq")


def measure_many(addresses: Ints, sizes: Ints, codes: Ints, out: Floats) -> float:
    """Write the statistics of array `i` to `out[i, :10]`; return the norm over all, NaN or infinity where one holds
    one. Arrays with address 0 are left out.

    Args:
        addresses: `(n,)` int64; sizes: `(n,)` int64; codes: `(n,)` int64.
        out: `(n, 10 or more)` float64, its rows without gaps.
    """
    columns = addresses.ctypes.data, sizes.ctypes.data, codes.ctypes.data
    norm: float = _measure_many(addresses.size, *columns, out.ctypes.data, out.strides[0])
    return norm


def measure_updates(
    addresses: Ints, sizes: Ints, codes: Ints, before: Ints, norms: Floats, out: Floats, moved: Floats
) -> None:
    """Measure weights and updates in one pass: weight `i` to `out[i]`, its change since the copy at `before[i]` to
    `moved[i]`, the ratio of the change to the weight to `moved[i, 10]`; refresh copy and norm.

    Args:
        addresses, sizes, codes: `(n,)` int64; address 0 is left out.
        before: `(n,)` int64, addresses of the copies, of the same dtype.
        norms: `(n,)` float64, norms of the copies.
        out: `(n, 10 or more)` float64; moved: `(n, 11 or more)` float64; rows without gaps.
    """
    columns = (column.ctypes.data for column in (addresses, sizes, codes, before, norms))
    rows = out.ctypes.data, out.strides[0], moved.ctypes.data, moved.strides[0]
    _measure_updates(addresses.size, *columns, *rows)
