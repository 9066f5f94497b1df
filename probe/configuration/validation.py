"""What of a configuration is right, and all that is wrong with it.

Fields are looked at one by one first. What is right of them then says what does not fit together: a contradiction is
told where every key that decides it is right, for about the others nobody knows yet what they will be.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ...storage.errors import nearest_name
from .config import Config
from .config_fields import PART, Contradiction, Section
from .mistakes import KeyPath, dotted_key, field_at, holds_models, is_given, key_path, mistakes_of, model_at

__all__ = ["validate"]

_Error = Mapping[str, Any]  # Any: pydantic's own error dict


def validate(
    data: Mapping[str, object], *, unsure: Iterable[str] = (), is_part: bool = False
) -> tuple[Config | None, tuple[str, ...]]:
    """Return the configuration without its invalid parts, None where nothing is left, and a sentence for each mistake.

    Args:
        unsure: Keys about whose values nobody knows yet what they will be.
        is_part: The fields are laid over others, and need not agree with each other.
    """
    errors: list[_Error] = []
    taken: frozenset[KeyPath] = frozenset()
    config: Config | None
    try:
        config = Config.model_validate(data, context=PART)
    except ValidationError as error:
        errors = [dict(one) for one in error.errors()]
        config, taken = _right_of(data, errors)
    doubtful = [*((name,) for name in unsure), *(place for one in errors for place in _doubtful(one, data))]
    clashes = (
        f"{dotted_key(place)}: {one.words}" if place else one.words
        for place, one in _contradictions(config, (), taken)
        if (place or not is_part) and not any(_touches(doubtful, (*place, *key.split("."))) for key in one.keys)
    )
    return config, (*mistakes_of(errors), *clashes)


def _right_of(data: Mapping[str, object], errors: Iterable[_Error]) -> tuple[Config | None, frozenset[KeyPath]]:
    """Return the valid part, and the paths removed: innermost keys, or outermost ones where that is not enough."""
    places = [key_path(one) for one in errors]
    for taken in (frozenset(map(_removable, places)), frozenset(place[:1] for place in places)):
        try:
            return Config.model_validate(_without(data, (), taken), context=PART), taken
        except ValidationError:
            continue
    return None, frozenset()


def _removable(place: KeyPath) -> KeyPath:
    """Return the smallest part around the path that can be removed: a key, or a list item that has keys."""
    while len(place) > 1:
        field = field_at(place)
        is_item = isinstance(place[-1], int)
        if not (field is not None and field.is_required()) and (not is_item or holds_models(place[:-1])):
            break
        place = place[:-1]
    return place


def _without(value: object, place: KeyPath, taken: frozenset[KeyPath]) -> object:
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if isinstance(name, str) and (*place, name) not in taken}
        return {name: _without(one, (*place, name), taken) for name, one in kept.items()}
    if isinstance(value, list | tuple):
        numbered = [((*place, number), one) for number, one in enumerate(value)]
        return [_without(one, inner, taken) for inner, one in numbered if inner not in taken]
    return value


def _doubtful(error: _Error, data: Mapping[str, object]) -> tuple[KeyPath, ...]:
    """Return the paths whose value may change once the mistake is corrected."""
    place = key_path(error)
    if error["type"] != "extra_forbidden":
        return (place,)
    near = nearest_name(str(place[-1]), model_at(place[:-1]).model_fields)
    meant = place[:-1] if near is None else (*place[:-1], near)
    return () if near is not None and is_given(data, meant) else (meant,)


def _touches(doubtful: Iterable[KeyPath], place: KeyPath) -> bool:
    return any(one[: len(place)] == place[: len(one)] for one in doubtful)


def _contradictions(part: object, place: KeyPath, taken: frozenset[KeyPath]) -> Iterator[tuple[KeyPath, Contradiction]]:
    """Yield the contradictions of each nested section, with its path in the text before `taken` was removed."""
    if isinstance(part, Section):
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
