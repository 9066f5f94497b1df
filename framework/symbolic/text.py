"""Symbolic lengths read back from their text: sums and products of numbers, names and floor divisions."""

import re
from typing import Any

from .dim import Dim, Length
from .order import SymbolicError

__all__ = ["parse_length"]

_TOKEN = re.compile(r"\s*(//|[-+*()%]|\d+|[A-Za-z_]\w*)")


def parse_length(text: str) -> Length:
    """The length that `str` of it gave.

    Raises:
        SymbolicError: It is no such expression.
    """
    tokens: list[str] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise SymbolicError(f"{text!r} is no length: expected numbers, names and + - * // %")
        tokens.append(match[1])
        place = match.end()
    result, rest = _parse_sum(tokens, text)
    if rest:
        raise SymbolicError(f"{text!r} is no length: what is {rest[0]!r} doing there?")
    found: Length = result
    return found


def _parse_sum(tokens: list[str], text: str) -> tuple[Any, list[str]]:
    negative = tokens[:1] == ["-"]
    result, rest = _parse_product(tokens[negative:], text)
    result = -result if negative else result
    while rest[:1] in (["+"], ["-"]):
        term, after = _parse_product(rest[1:], text)
        result, rest = (result + term if rest[0] == "+" else result - term), after
    return result, rest


def _parse_product(tokens: list[str], text: str) -> tuple[Any, list[str]]:
    result, rest = _parse_atom(tokens, text)
    while rest[:1] in (["*"], ["//"], ["%"]):
        factor, after = _parse_atom(rest[1:], text)
        how = rest[0]
        result = result * factor if how == "*" else result // factor if how == "//" else result % factor
        rest = after
    return result, rest


def _parse_atom(tokens: list[str], text: str) -> tuple[Any, list[str]]:
    if tokens and tokens[0] == "(":
        result, rest = _parse_sum(tokens[1:], text)
        if rest[:1] == [")"]:
            return result, rest[1:]
    elif tokens and (tokens[0][0].isalnum() or tokens[0][0] == "_"):
        return (int(tokens[0]) if tokens[0].isdigit() else Dim(tokens[0])), tokens[1:]
    raise SymbolicError(f"{text!r} is no length: it ends too early or is not closed")
