"""Symbolic lengths: what an axis is called before it is known how long it is, and arithmetic on such names.

polynomial   sums and products of names, as dictionaries
bounds       what holds for all lengths of 2 or more
dim          the length itself
order        which of two is larger; assumptions where an example decides
quotient     a length divided by a number
shapes       names in nested values: found, replaced, matched
text         read back from text
"""

from .dim import Assumption, Dim, Length, Quotient, SymbolicError, assuming
from .shapes import dims_of, is_static, parse_length, substitute, unify

__all__ = [
    "Assumption",
    "Dim",
    "Length",
    "Quotient",
    "SymbolicError",
    "assuming",
    "dims_of",
    "is_static",
    "parse_length",
    "substitute",
    "unify",
]
