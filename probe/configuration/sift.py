"""What of a configuration is right, and all that is wrong with it.

Fields are looked at one by one first. What is right of them then says what does not fit together: a contradiction is
told where every key that decides it is right, for about the others nobody knows yet what they will be.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ...storage.errors import nearest_name
from .config import Config
from .mistakes import mistakes_of
from .places import Place, field_at, holds_models, is_given, model_at, place_of, written
from .strict import PART, Contradiction, Strict

__all__ = ["sift"]

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def sift(
    data: Mapping[str, Any], *, unsure: Iterable[str] = (), is_part: bool = False
) -> tuple[Config | None, tuple[str, ...]]:
    """The configuration without what is wrong of it, none where that is none, and a sentence for each mistake.

    Args:
        unsure: Keys about whose values nobody knows yet what they will be.
        is_part: The fields are laid over others, and need not agree with each other.
    """
    errors: list[_Error] = []
    taken: frozenset[Place] = frozenset()
    config: Config | None
    try:
        config = Config.model_validate(data, context=PART)
    except ValidationError as error:
        errors = [dict(one) for one in error.errors()]
        config, taken = _right_of(data, errors)
    doubtful = [*((name,) for name in unsure), *(place for one in errors for place in _doubtful(one, data))]
    clashes = (
        f"{written(place)}: {one.words}" if place else one.words
        for place, one in _contradictions(config, (), taken)
        if (place or not is_part) and not any(_touches(doubtful, (*place, *key.split("."))) for key in one.keys)
    )
    return config, (*mistakes_of(errors), *clashes)


def _right_of(data: Mapping[str, Any], errors: Iterable[_Error]) -> tuple[Config | None, frozenset[Place]]:
    """What is right, and the places that were taken out: innermost keys, or where that is not enough outermost ones."""
    places = [place_of(one) for one in errors]
    for taken in (frozenset(map(_removable, places)), frozenset(place[:1] for place in places)):
        try:
            return Config.model_validate(_without(data, (), taken), context=PART), taken
        except ValidationError:
            continue
    return None, frozenset()


def _removable(place: Place) -> Place:
    """The smallest piece around the place without which the rest can stand: a key, or an item that has keys."""
    while len(place) > 1:
        field = field_at(place)
        is_item = isinstance(place[-1], int)
        if not (field is not None and field.is_required()) and (not is_item or holds_models(place[:-1])):
            break
        place = place[:-1]
    return place


def _without(value: Any, place: Place, taken: frozenset[Place]) -> Any:  # Any: whatever the text held
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if isinstance(name, str) and (*place, name) not in taken}
        return {name: _without(one, (*place, name), taken) for name, one in kept.items()}
    if isinstance(value, list | tuple):
        numbered = [((*place, number), one) for number, one in enumerate(value)]
        return [_without(one, inner, taken) for inner, one in numbered if inner not in taken]
    return value


def _doubtful(error: _Error, data: Mapping[str, Any]) -> tuple[Place, ...]:
    """Where the value may become another once the mistake is mended."""
    place = place_of(error)
    if error["type"] != "extra_forbidden":
        return (place,)
    near = nearest_name(str(place[-1]), model_at(place[:-1]).model_fields)
    meant = place[:-1] if near is None else (*place[:-1], near)
    return () if near is not None and is_given(data, meant) else (meant,)


def _touches(doubtful: Iterable[Place], place: Place) -> bool:
    return any(one[: len(place)] == place[: len(one)] for one in doubtful)


def _contradictions(part: object, place: Place, taken: frozenset[Place]) -> Iterator[tuple[Place, Contradiction]]:
    """Those of each part inside, with its place in the text, from which some were taken out."""
    if isinstance(part, Strict):
        yield from ((place, one) for one in part.contradictions())
        inner: Iterable[tuple[str | int, object]] = ((name, getattr(part, name)) for name in type(part).model_fields)
    elif isinstance(part, Mapping):
        inner = part.items()
    elif isinstance(part, tuple):
        left = (number for number in range(len(part) + len(taken)) if (*place, number) not in taken)
        inner = zip(left, part, strict=False)
    else:
        return
    for name, value in inner:
        yield from _contradictions(value, (*place, name), taken)
