"""Names of lengths in shapes, attributes and other nested values, and numbers in their place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .dim import Dim, Length
from .quotient import Quotient

__all__ = ["dims_of", "is_static", "substitute", "unify"]


def is_static(shape: Iterable[Any]) -> bool:
    """Whether every length of a shape is a number."""
    return all(isinstance(length, int) for length in shape)


def dims_of(value: Any) -> set[str]:
    """The names of the lengths that a value (an expression, a tuple, anything) depends on."""
    if isinstance(value, Dim):
        return value.names()
    if isinstance(value, Quotient):
        return dims_of(value.above) | dims_of(value.below)
    if isinstance(value, tuple | list):
        return set().union(*(dims_of(part) for part in value))
    return set()


def substitute(value: Any, lengths: Mapping[str, Length]) -> Any:
    """The value with these lengths for names, in expressions and in tuples of them."""
    if isinstance(value, Dim):
        return value.at(lengths)
    if isinstance(value, Quotient):
        return substitute(value.above, lengths) / substitute(value.below, lengths)
    if isinstance(value, tuple):
        parts = [substitute(part, lengths) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def unify(shape: Sequence[Any], actual: Sequence[int], known: dict[str, int]) -> bool:
    """Whether the actual shape fits the symbolic one; lengths found out are added to `known`.

    Axes that are a plain name tell its length; other expressions are checked once their names are known.
    """
    if len(shape) != len(actual):
        return False
    for length, found in zip(shape, actual, strict=True):
        name = _plain_name(length)
        if name is not None and known.setdefault(name, found) != found:
            return False
    return all(
        substitute(length, known) == found
        for length, found in zip(shape, actual, strict=True)
        if dims_of(length) <= known.keys()
    )


def _plain_name(length: Any) -> str | None:
    names = dims_of(length)
    return next(iter(names)) if len(names) == 1 and length == Dim(next(iter(names))) else None
