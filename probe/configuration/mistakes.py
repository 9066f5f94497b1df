"""What is wrong with a configuration, each mistake as a sentence: what was expected, what came, and what to do."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ...storage.errors import nearest
from .config import Config
from .strict import Contradictions

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
}
#: Bounds, by pydantic's names.
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} at most"),
    "less_than": ("lt", "less than {}"),
}
#: Keys that take values of several kinds, of which pydantic tells each on its own.
_SEVERAL: Final = {"causality": "true, false or report", "output": "the place of an output, or its name"}
#: Characters of a value that are repeated (our choice: half a line of a terminal).
_SHOWN: Final = 60

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def mistakes_of(errors: Sequence[_Error]) -> tuple[str, ...]:
    """A sentence for each mistake."""
    return tuple(dict.fromkeys(words for error in errors for words in _told(error)))


def _told(error: _Error) -> Iterator[str]:
    kind, place = str(error["type"]), _without_branches(error["loc"])
    key = _written(place)
    if kind == "extra_forbidden":
        known = list(_model_at(place[:-1]).model_fields)
        every = f"; there are {', '.join(known)}"
        yield f"unknown key {key!r}{nearest(str(place[-1]), known) or every}"
    elif kind == "invalid_key" or (error["loc"][-1:] == ("[key]",) and kind != "value_error"):
        yield f"a key must be text, got {_clipped(error['input'])}; write it in quotes if it is a name"
    elif kind == "missing":
        yield f"{_written(place[:-1]) or 'the configuration'} needs the key {str(place[-1])!r}; add it"
    elif kind == "value_error":
        cause = error["ctx"]["error"]
        for words in cause.mistakes if isinstance(cause, Contradictions) else [str(cause)]:
            yield f"{key} {words}" if words.startswith("must ") else f"{key}: {words}" if key else words
    else:
        expected = _expected(kind, place, error)
        yield f"{key} must be {expected}, got {_clipped(error['input'])}{_remedy(kind, place, error)}"


def _without_branches(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place in the text: without the words by which pydantic tells branches of a union, and keys from values."""
    several = [number for number, part in enumerate(place) if part in _SEVERAL]
    whole = place[: several[0] + 1] if several and len(place) == several[0] + 2 else place
    return () if whole and whole[-1] == "[key]" else whole


def _written(place: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _expected(kind: str, place: Sequence[str | int], error: _Error) -> str:
    if place and place[-1] in _SEVERAL:
        return _SEVERAL[str(place[-1])]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(f"{error['ctx'][name]:g}")
    if kind == "literal_error":
        return f"one of {str(error['ctx']['expected']).replace(' or ', ', ')}"
    return next((words for begin, words in _EXPECTED.items() if kind.startswith(begin)), str(error["msg"]).lower())


def _remedy(kind: str, place: tuple[str | int, ...], error: _Error) -> str:
    """What to do: the nearest word, the same as a list, the keys there are, or the default."""
    given = error["input"]
    if kind == "literal_error" and isinstance(given, str):
        near = nearest(given, [word.strip("' ") for word in _expected(kind, (), error)[len("one of ") :].split(",")])
        if near:
            return near
    if kind.startswith(("tuple", "list")) and not isinstance(given, list | tuple):
        return f"; write [{_clipped(given)}]"
    if kind.startswith(("model", "dict")):
        return f"; there are {', '.join(_model_at(place).model_fields)}"
    return _default(place)


def _default(place: tuple[str | int, ...]) -> str:
    field = _model_at(place[:-1]).model_fields.get(str(place[-1])) if place else None
    if field is None or field.default is PydanticUndefined:
        return ""
    return f"; leave it out for {'the default' if field.default is None else _clipped(field.default)}"


def _clipped(value: object) -> str:
    """The value as JSON, which YAML reads too; strings as Python writes them."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _model_at(place: Sequence[str | int]) -> type[BaseModel]:
    """The part of the configuration to which these keys lead; subjects and positions in lists lead no further."""
    model: type[BaseModel] = Config
    for part in place:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)
