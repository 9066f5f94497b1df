"""Arrays of any library: what they are, and the steps that everything here takes with them."""

from .standard import (
    Array,
    Floats,
    Images,
    Rows,
    as_float64,
    cast,
    concatenate,
    copy,
    drawn,
    from_numpy,
    namespace,
    to_numpy,
)

__all__ = [
    "Array",
    "Floats",
    "Images",
    "Rows",
    "as_float64",
    "cast",
    "concatenate",
    "copy",
    "drawn",
    "from_numpy",
    "namespace",
    "to_numpy",
]
