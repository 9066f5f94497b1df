"""What every stream of rows has alike: how many rows a block holds at most, and what its columns are stored as."""

from typing import Final

#: Rows of a block; what is beyond is in a further part of the stream.
MOST_ROWS: Final = 1024
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size", "bytes", "checksum"})


def column_dtypes(statistics: tuple[str, ...], *, wide: bool) -> tuple[str, ...]:
    """What each column is stored as: counts as uint64, the rest as float64 where float64 was captured, else float32."""
    return tuple(
        "uint64" if name in _COUNTS else "float64" if wide or name == "sum" else "float32" for name in statistics
    )
