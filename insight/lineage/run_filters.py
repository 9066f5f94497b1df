"""Filters and sorts runs by conditions over their fields, as a person writes them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ...storage import Json, nearest
from ..errors import UnknownField, WrongCondition
from .provenance import Provenance

__all__ = ["Condition", "differing_settings", "known_fields", "ordered", "parse_condition", "resolve"]

_NUMERIC: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
#: Prefixes of the settings, in the order in which they tell runs apart.
_SETTINGS: Final = ("tag.", "argument.", "optimizer", "data.", "model.checksum", "git.commit", "config.")
_FORM = re.compile(r"\s*([^\s<>=!~]+)\s*(<=|>=|!=|==?|<|>|~)\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; a run without the field meets none.

    Args:
        field: As a person writes it, `lr` for `tag.lr`.
        operator: `=`, `!=`, `<`, `<=`, `>`, `>=`, or `~`, which matches a shell glob.
        value: What it is compared with; numbers as numbers.
    """

    field: str
    operator: str
    value: str

    def holds(self, value: Json) -> bool:
        """Return whether a value of the field meets the condition."""
        if value is None:
            return False
        if self.operator in _NUMERIC:
            return isinstance(value, int | float) and _NUMERIC[self.operator](float(value), float(self.value))
        if self.operator == "~":
            return fnmatchcase(_text(value), self.value)
        return _is_same(value, self.value) == (self.operator == "=")


def parse_condition(text: str) -> Condition:
    """Parse a condition such as `lr > 0.01`, `state = finished` or `name ~ gpt*`.

    Raises:
        WrongCondition: The text has another form, or compares the order of something that is not a number.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise WrongCondition(f"condition {text!r} must read 'field operator value', for example 'lr > 0.01'")
    field, operator, value = found.groups()
    value = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
    operator = "=" if operator == "==" else operator
    if operator in _NUMERIC and _number(value) is None:
        raise WrongCondition(f"condition {text!r} compares with {value!r}, which is not a number; use = or ~ for words")
    return Condition(field, operator, value)


def known_fields(rows: Iterable[Provenance]) -> tuple[str, ...]:
    """Return the fields that at least one run has, in order of first appearance."""
    return tuple(dict.fromkeys(name for row in rows for name in row.fields))


def differing_settings(rows: Sequence[Provenance]) -> tuple[str, ...]:
    """Return the settings in which the runs differ, tags first."""
    known = known_fields(rows)
    return tuple(
        name
        for prefix in _SETTINGS
        for name in known
        if name.startswith(prefix) and len({str(row.fields.get(name)) for row in rows}) > 1
    )


def resolve(field: str, known: Sequence[str]) -> str:
    """Return the full name of a field: itself, with `tag.` before it, or the only one that ends in it.

    `tags.lr` is `tag.lr`, for that is how the argument of `watch` is spelled.

    What a script was called with counts where nothing else ends in it: `lr` is the optimizer's before it is `--lr`.

    Raises:
        UnknownField: There is none, or several end in it; the message names the nearest.
    """
    for name in (field, f"tag.{field.removeprefix('tags.')}"):
        if name in known:
            return name
    found = [name for name in known if name.endswith((f".{field}", f"/{field}"))]
    found = [name for name in found if not name.startswith("argument.")] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownField(f"field {field!r} is ambiguous; write one of {', '.join(found)}")
    short = {name.rpartition(".")[2]: name for name in known}
    raise UnknownField(f"no run has a field {field!r}{nearest(field, [*known, *short])}")


def ordered(rows: Sequence[Provenance], field: str, *, descending: bool = False) -> tuple[Provenance, ...]:
    """Sort the runs by a field: numbers before words, NaN and absent values always last.

    Raises:
        UnknownField: It is had by no run.
    """
    if not rows:
        return ()
    name = resolve(field, known_fields(rows))
    there = [row for row in rows if not _is_missing(row.fields.get(name))]
    absent = [row for row in rows if _is_missing(row.fields.get(name))]
    return (*sorted(there, key=lambda row: _key(row.fields[name]), reverse=descending), *absent)


def _key(value: Json) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, _text(value))


def _is_missing(value: Json) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_same(value: Json, text: str) -> bool:
    number = _number(text)
    if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
        return float(value) == number
    return _text(value) == text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
