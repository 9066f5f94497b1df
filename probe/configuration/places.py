"""Places in a configuration: the keys and positions that lead there, and what the schema has at them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .config import Config

__all__ = ["SEVERAL", "Place", "field_at", "holds_models", "is_given", "model_at", "place_of", "written"]

Place = tuple[str | int, ...]

#: Keys that take values of several kinds, of which pydantic tells each on its own: the kind by which a remedy is looked
#: for, and what was expected.
SEVERAL: Final = {
    "causality": ("bool", "true, false or report"),
    "output": ("output", "the place of an output, or its name"),
}
#: What pydantic writes behind a key that is wrong itself.
_KEY: Final = "[key]"


def place_of(error: Mapping[str, Any]) -> Place:  # Any: pydantic's own error dict
    """Where the mistake is in the text: without the words by which pydantic tells kinds of values, and keys.

    A key that is wrong itself is the last part.
    """
    place: Place = error["loc"]
    several = [number for number, part in enumerate(place) if part in SEVERAL]
    whole = place[: several[0] + 1] if several and len(place) == several[0] + 2 else place
    return whole[:-1] if whole[-1:] == (_KEY,) else whole


def written(place: Sequence[str | int]) -> str:
    """The place as a person writes it, as `subjects.weight.windows[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def is_given(data: object, place: Place) -> bool:
    """Whether these keys lead to a value of the text; what lies in a list is not looked for."""
    for part in place:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True


def model_at(place: Sequence[str | int]) -> type[BaseModel]:
    """The part of the configuration to which these keys lead; subjects and positions in lists lead no further."""
    model: type[BaseModel] = Config
    for part in place:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field is not None else None) or model
    return model


def field_at(place: Place) -> FieldInfo | None:
    """The field of the schema that has its value there; None where there is none, as for a single subject."""
    if not place or place[:-1] == ("subjects",):
        return None
    return model_at(place[:-1]).model_fields.get(str(place[-1]))


def holds_models(place: Place) -> bool:
    """Whether each item of a list at this place is a part of the configuration with keys of its own."""
    field = field_at(place)
    return field is not None and _model_in(field.annotation) is not None


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)
