"""What is wrong with a configuration, each mistake as a sentence: what was expected, what came, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...storage.errors import nearest
from .cadence import Cadence
from .dumps import Dump
from .places import SEVERAL, model_at, place_of, written
from .remedies import clipped, remedy

__all__ = ["mistakes_of"]

#: What was expected, by the beginning of the type of one of pydantic's errors.
_EXPECTED: Final = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string_pattern": "an address as https://host/path",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "keys and values",
    "model": "keys and values",
    "too_short": "a list of at least one",
    "cadence": "a whole number of steps, true, false, or the keys of a cadence",
    "window": "a pair [first, last] of steps",
    "share": "a share between 0 and 1, as 0.03, or a percentage below 100, as 3%",
    "subject_names": "a list of names",
    "subjects": "keys and values, as {gradient: 10}, or a list of names",
}
#: Bounds, by pydantic's names.
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} at most"),
    "less_than": ("lt", "less than {}"),
}

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def mistakes_of(errors: Sequence[_Error]) -> tuple[str, ...]:
    """A sentence for each mistake."""
    return tuple(dict.fromkeys(map(_told, errors)))


def _told(error: _Error) -> str:
    kind, place = str(error["type"]), place_of(error)
    is_key = error["loc"][-1:] == ("[key]",)
    key = "" if is_key else written(place)
    if kind == "extra_forbidden":
        known = list(model_at(place[:-1]).model_fields)
        if model_at(place[:-1]) is Dump and place[-1] in Cadence.model_fields:
            return f"unknown key {key!r}; write it below `when`, as when: {{{place[-1]}: {clipped(error['input'])}}}"
        every = f"; there are {', '.join(known)}"
        return f"unknown key {key!r}{nearest(str(place[-1]), known) or every}"
    if kind == "invalid_key" or (is_key and kind != "value_error"):
        return f"a key must be text, got {clipped(error['input'])}; write it in quotes if it is a name"
    if kind == "missing":
        return f"{written(place[:-1]) or 'the configuration'} needs the key {str(place[-1])!r}; add it"
    if kind == "value_error":
        words = str(error["ctx"]["error"])
        return f"{key} {words}" if words.startswith("must ") else f"{key}: {words}" if key else words
    expected = _expected(kind, place, error)
    if place and place[-1] in SEVERAL:
        kind = SEVERAL[str(place[-1])][0]
    return f"{key} must be {expected}, got {clipped(error['input'])}{remedy(kind, place, error)}"


def _expected(kind: str, place: Sequence[str | int], error: _Error) -> str:
    if place and place[-1] in SEVERAL:
        return SEVERAL[str(place[-1])][1]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(f"{error['ctx'][name]:g}")
    if kind == "literal_error":
        return f"one of {str(error['ctx']['expected']).replace(' or ', ', ')}"
    return next((words for begin, words in _EXPECTED.items() if kind.startswith(begin)), str(error["msg"]).lower())
