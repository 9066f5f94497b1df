"""What is wrong with a configuration, each mistake as a sentence: what was expected, what came, and what to do."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ...storage.errors import nearest
from ..collectors.collector import COLLECTORS
from .cadence import Cadence
from .config import Config
from .config_fields import plain
from .sections import Dump

__all__ = [
    "UNION_KEYS",
    "KeyPath",
    "dotted_key",
    "field_at",
    "holds_models",
    "is_given",
    "key_path",
    "mistakes_of",
    "model_at",
    "shortened",
    "suggestion",
]


KeyPath = tuple[str | int, ...]

#: Keys that take values of several kinds, for each of which pydantic reports an error: the kind whose suggestion is
#: given, and the expected values.
UNION_KEYS: Final = {
    "causality": ("bool", "true, false or report"),
    "output": ("output", "the place of an output, or its name"),
}

#: Expected values, by the first words of the type of pydantic's error.
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
#: Bounds, by the types of pydantic's errors.
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} at most"),
    "less_than": ("lt", "less than {}"),
}

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def mistakes_of(errors: Sequence[_Error]) -> tuple[str, ...]:
    """Return a sentence for each mistake."""
    return tuple(dict.fromkeys(map(_sentence, errors)))


def _sentence(error: _Error) -> str:
    kind, path = str(error["type"]), key_path(error)
    is_key = error["loc"][-1:] == ("[key]",)
    key = "" if is_key else dotted_key(path)
    if kind == "extra_forbidden":
        known = list(model_at(path[:-1]).model_fields)
        if model_at(path[:-1]) is Dump and path[-1] in Cadence.model_fields:
            return f"unknown key {key!r}; write it below `when`, as when: {{{path[-1]}: {shortened(error['input'])}}}"
        if len(path) == 1 and (subject := _subject(str(path[-1]))):
            return f"unknown key {key!r}; for the subject write subjects: {{{subject}: {shortened(error['input'])}}}"
        every = f"; there are {', '.join(known)}"
        return f"unknown key {key!r}{nearest(str(path[-1]), known) or every}"
    if kind == "invalid_key" or (is_key and kind != "value_error"):
        return f"a key must be text, got {shortened(error['input'])}; write it in quotes if it is a name"
    if kind == "missing":
        return f"{dotted_key(path[:-1]) or 'the configuration'} needs the key {str(path[-1])!r}; add it"
    if kind == "value_error":
        words = str(error["ctx"]["error"])
        return f"{key} {words}" if words.startswith("must ") else f"{key}: {words}" if key else words
    expected = _expected(kind, path, error)
    if path and path[-1] in UNION_KEYS:
        kind = UNION_KEYS[str(path[-1])][0]
    return f"{key} must be {expected}, got {shortened(error['input'])}{suggestion(kind, path, error)}"


def _subject(key: str) -> str | None:
    """Return the subject that a key names, in the singular or in the plural."""
    return next((name for name in (key, key.removesuffix("s")) if name in COLLECTORS and name != "histogram"), None)


def _expected(kind: str, path: Sequence[str | int], error: _Error) -> str:
    if path and path[-1] in UNION_KEYS:
        return UNION_KEYS[str(path[-1])][1]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(f"{error['ctx'][name]:g}")
    if kind == "literal_error":
        return f"one of {str(error['ctx']['expected']).replace(' or ', ', ')}"
    return next((words for begin, words in _EXPECTED.items() if kind.startswith(begin)), str(error["msg"]).lower())


#: Characters of a value that a message repeats (our choice: half a line of a terminal).
_SHOWN: Final = 60
#: Larger floats are not taken for whole numbers (our choice: a float represents every smaller one).
_LARGE: Final = 2.0**53
#: Words that users write for a switch.
_SWITCHES: Final = {"true": "true", "yes": "true", "on": "true", "1": "true"} | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)

#: Examples for values that are easily written wrong.
_EXAMPLES: Final = {
    "cadence": f"there are {', '.join(Cadence.model_fields)}",
    "window": "write windows: [[100, 110]]",
    "subjects": "{gradient: 10} changes what it names, [gradient, loss] switches off all others; leave it out for all",
    "subject_names": "with a cadence write keys and values, as {gradient: 10, loss: 1}, and `every: 0` for no others",
}

#: How to switch off what a list chooses.
_NONE: Final = {
    "subjects": "; leave it out for all, or name those that you want, as [gradient, loss]",
    "histograms.subjects": ", or write `histograms: {every: 0}` for none",
    "dump.subjects": ", or leave out `dump` for none",
    "flight_recorder.subjects": ", or leave out `tensors` for none",
}


def suggestion(kind: str, path: KeyPath, error: _Error) -> str:
    """Return what to do, as the end of a sentence; empty where it is unknown.

    Args:
        kind: The type of pydantic's error, or one of ours.
        error: pydantic's own.
    """
    value = plain(error["input"])
    if kind == "literal_error" and isinstance(value, str):
        words = [word.strip("' ") for word in str(error["ctx"]["expected"]).replace(" or ", ",").split(",")]
        return nearest(value, words) or _default(path)
    if kind.startswith(("tuple", "list")) and not isinstance(value, list | tuple | None):
        return f"; write [{shortened(value)}]"
    if kind.startswith(("model", "dict")):
        return _part(model_at(path), value)
    meant = _meant(kind, value, path)
    if meant:
        return f"; write {meant}{', without quotes' if isinstance(value, str) and kind != 'share' else ''}"
    if kind == "too_short":
        return f"{_default(path)}{_NONE.get(dotted_key(path), '')}"
    if kind in _EXAMPLES:
        return f"; {_EXAMPLES[kind]}"
    return _default(path)


def _part(model: type[BaseModel], value: object) -> str:
    """Describe how to switch a section on or off, or list the keys that it has."""
    if value is True and not any(field.is_required() for field in model.model_fields.values()):
        return f"; write {{}} for its defaults, or some of {', '.join(model.model_fields)}"
    if value is False:
        return "; write {every: 0}" if "every" in model.model_fields else "; leave it out"
    return f"; there are {', '.join(model.model_fields)}"


def _meant(kind: str, value: object, path: KeyPath) -> str:
    """Return the number or switch that was most probably meant; empty where it is unknown."""
    if kind.startswith("bool") and not isinstance(value, float):
        return _SWITCHES.get(str(value).strip().lower(), "")
    if isinstance(value, bool):
        every = {True: "1 for every step", False: "0 for none"}
        return every[value] if kind.startswith("int") and path[-1:] == ("every",) else ""
    number = _number(value)
    if number is not None and kind == "share" and 1.0 <= number < 100.0:
        return f"{number:g}% or {number / 100.0:g}"
    if number is not None and kind.startswith("float"):
        return f"{number:g}"
    if number is not None and kind.startswith(("int", "cadence")) and number.is_integer() and abs(number) < _LARGE:
        return str(int(number))
    return ""


def _number(value: object) -> float | None:
    try:
        found = float(value) if isinstance(value, str | float | int) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _default(path: KeyPath) -> str:
    field = field_at(path)
    if field is None or field.default is PydanticUndefined:
        return ""
    return "; or leave it out" if field.default is None else f"; leave it out for {shortened(field.default)}"


def shortened(value: object) -> str:
    """Format the value as JSON, which YAML reads too, strings as Python writes them; cut long values.

    Of an address only scheme and host are shown: the rest of it is often a secret.
    """
    value = plain(value)
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON does not allow, or a recursive value
        text = repr(value)
    text = _SECRETS.sub(r"\1\2/...", text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_SECRETS: Final = re.compile(r"""(\w+://)(?:[^/@\s'"]*@)?([^/?#@\s'"]*)[/?#@][^\s'"]*""")


#: Pydantic's marker behind a key that is wrong itself.
_KEY: Final = "[key]"


def key_path(error: Mapping[str, Any]) -> KeyPath:  # Any: pydantic's own error dict
    """Return the path of keys to the mistake, without the markers that pydantic adds for kinds of values and keys.

    A key that is wrong itself is the last part.
    """
    path: KeyPath = error["loc"]
    several = [number for number, part in enumerate(path) if part in UNION_KEYS]
    trimmed = path[: several[0] + 1] if several and len(path) == several[0] + 2 else path
    return trimmed[:-1] if trimmed[-1:] == (_KEY,) else trimmed


def dotted_key(path: Sequence[str | int]) -> str:
    """Format the path as a user writes it: `subjects.weight.windows[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def is_given(data: object, path: KeyPath) -> bool:
    """Return whether these keys lead to a value of the text; lists are not entered."""
    for part in path:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True


def model_at(path: Sequence[str | int]) -> type[BaseModel]:
    """Return the section to which these keys lead; subjects and list positions lead no further."""
    model: type[BaseModel] = Config
    for part in path:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return model


def field_at(path: KeyPath) -> FieldInfo | None:
    """Return the schema field of this path; None where there is none, as for a single subject."""
    if not path or path[:-1] == ("subjects",):
        return None
    return model_at(path[:-1]).model_fields.get(str(path[-1]))


def holds_models(path: KeyPath) -> bool:
    """Return whether each item of a list at this path is a section with keys of its own."""
    field = field_at(path)
    return field is not None and _model_in(field.annotation) is not None


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_in(argument)) is not None), None)
