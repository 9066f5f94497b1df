"""What to do about a value that is wrong: what was most probably meant, another way to write it, or the default."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ...storage.errors import nearest
from .cadence import Cadence
from .places import Place, field_at, model_at, written
from .scalars import plain

__all__ = ["clipped", "remedy"]

#: Characters of a value that are repeated (our choice: half a line of a terminal).
_SHOWN: Final = 60
#: Beyond this nobody meant a whole number (our choice: a float holds each one below).
_LARGE: Final = 2.0**53
#: What people write for a switch.
_SWITCHES: Final = {"true": "true", "yes": "true", "on": "true", "1": "true"} | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)

#: How values are written that are seldom right at once.
_EXAMPLES: Final = {
    "cadence": f"there are {', '.join(Cadence.model_fields)}",
    "window": "write windows: [[100, 110]]",
    "subjects": "{gradient: 10} changes what it names, [gradient, loss] switches off all others; leave it out for all",
    "subject_names": "with a cadence write keys and values, as {gradient: 10, loss: 1}, and `every: 0` for no others",
}

#: How to have nothing of what a list chooses.
_NONE: Final = {
    "subjects": "; leave it out for all, or name those that you want, as [gradient, loss]",
    "histograms.subjects": ", or write `histograms: {every: 0}` for none",
    "dump.subjects": ", or leave out `dump` for none",
    "flight_recorder.subjects": ", or leave out `tensors` for none",
}

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def remedy(kind: str, place: Place, error: _Error) -> str:
    """What to do, as the end of a sentence; nothing where nobody knows.

    Args:
        kind: The type of pydantic's error, or one of ours.
        error: pydantic's own.
    """
    given = plain(error["input"])
    if kind == "literal_error" and isinstance(given, str):
        words = [word.strip("' ") for word in str(error["ctx"]["expected"]).replace(" or ", ",").split(",")]
        return nearest(given, words) or _default(place)
    if kind.startswith(("tuple", "list")) and not isinstance(given, list | tuple | None):
        return f"; write [{clipped(given)}]"
    if kind.startswith(("model", "dict")):
        return _part(model_at(place), given)
    meant = _meant(kind, given, place)
    if meant:
        return f"; write {meant}{', without quotes' if isinstance(given, str) and kind != 'share' else ''}"
    if kind == "too_short":
        return f"{_default(place)}{_NONE.get(written(place), '')}"
    if kind in _EXAMPLES:
        return f"; {_EXAMPLES[kind]}"
    return _default(place)


def _part(model: type[BaseModel], given: object) -> str:
    """How a part is switched on or off, or the keys that it has."""
    if given is True and not any(field.is_required() for field in model.model_fields.values()):
        return f"; write {{}} for its defaults, or some of {', '.join(model.model_fields)}"
    if given is False:
        return "; write {every: 0}" if "every" in model.model_fields else "; leave it out"
    return f"; there are {', '.join(model.model_fields)}"


def _meant(kind: str, given: object, place: Place) -> str:
    """The number or the switch that was most probably meant; empty where nobody knows."""
    if kind.startswith("bool") and not isinstance(given, float):
        return _SWITCHES.get(str(given).strip().lower(), "")
    if isinstance(given, bool):
        every = {True: "1 for every step", False: "0 for none"}
        return every[given] if kind.startswith("int") and place[-1:] == ("every",) else ""
    number = _number(given)
    if number is not None and kind == "share" and 1.0 <= number < 100.0:
        return f"{number:g}% or {number / 100.0:g}"
    if number is not None and kind.startswith("float"):
        return f"{number:g}"
    if number is not None and kind.startswith(("int", "cadence")) and number.is_integer() and abs(number) < _LARGE:
        return str(int(number))
    return ""


def _number(given: object) -> float | None:
    try:
        found = float(given) if isinstance(given, str | float | int) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _default(place: Place) -> str:
    field = field_at(place)
    if field is None or field.default is PydanticUndefined:
        return ""
    return "; or leave it out" if field.default is None else f"; leave it out for {clipped(field.default)}"


def clipped(value: object) -> str:
    """The value as JSON, which YAML reads too; strings as Python writes them."""
    value = plain(value)
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON has not, or a value inside itself
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
