"""Symbolic lengths in shapes, attributes and other nested values, and read back from text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .dim import Dim, Length, Quotient, SymbolicError


def is_static(shape: Iterable[object]) -> bool:
    """Return whether every length of a shape is a number."""
    return all(isinstance(length, int) for length in shape)


def dims_of(value: object) -> set[str]:
    """Return the names of the lengths that a value (an expression, a tuple, anything) depends on."""
    if isinstance(value, Dim):
        return value.names()
    if isinstance(value, Quotient):
        return dims_of(value.above) | dims_of(value.below)
    if isinstance(value, tuple | list):
        return set().union(*(dims_of(part) for part in value))
    return set()


def substitute(value: object, lengths: Mapping[str, Length]) -> Any:
    """Return the value with these lengths for names, in expressions and in tuples of them."""
    if isinstance(value, Dim):
        return value.at(lengths)
    if isinstance(value, Quotient):
        return substitute(value.above, lengths) / substitute(value.below, lengths)
    if isinstance(value, tuple):
        parts = [substitute(part, lengths) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def unify(shape: Sequence[object], actual: Sequence[int], known: dict[str, int]) -> bool:
    """Return whether the actual shape fits the symbolic one; lengths found out are added to `known`.

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


def _plain_name(length: object) -> str | None:
    names = dims_of(length)
    return next(iter(names)) if len(names) == 1 and length == Dim(next(iter(names))) else None


_TOKEN = re.compile(r"\s*(//|[-+*()%]|\d+|[A-Za-z_]\w*)")


def parse_length(text: str) -> Length:
    """Return the length that `str` of it gave.

    Raises:
        SymbolicError: It is no such expression.
    """
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise SymbolicError(f"{text!r} is no length: expected numbers, names and + - * // %")
        tokens.append(match[1])
        position = match.end()
    result, rest = _parse_sum(tokens, text)
    if rest:
        raise SymbolicError(f"{text!r} is no length: what is {rest[0]!r} doing there?")
    return result


def _parse_sum(tokens: list[str], text: str) -> tuple[Length, list[str]]:
    negative = tokens[:1] == ["-"]
    result, rest = _parse_product(tokens[negative:], text)
    result = -result if negative else result
    while rest[:1] in (["+"], ["-"]):
        term, after = _parse_product(rest[1:], text)
        result, rest = (result + term if rest[0] == "+" else result - term), after
    return result, rest


def _parse_product(tokens: list[str], text: str) -> tuple[Length, list[str]]:
    result, rest = _parse_atom(tokens, text)
    while rest[:1] in (["*"], ["//"], ["%"]):
        factor, after = _parse_atom(rest[1:], text)
        how = rest[0]
        result = result * factor if how == "*" else result // factor if how == "//" else result % factor
        rest = after
    return result, rest


def _parse_atom(tokens: list[str], text: str) -> tuple[Length, list[str]]:
    if tokens and tokens[0] == "(":
        result, rest = _parse_sum(tokens[1:], text)
        if rest[:1] == [")"]:
            return result, rest[1:]
    elif tokens and (tokens[0][0].isalnum() or tokens[0][0] == "_"):
        return (int(tokens[0]) if tokens[0].isdigit() else Dim(tokens[0])), tokens[1:]
    raise SymbolicError(f"{text!r} is no length: it ends too early or is not closed")
