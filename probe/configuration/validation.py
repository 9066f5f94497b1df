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
        unsure: Keys whose final values are not known yet.
        is_part: The fields are laid over others, and need not agree with each other.
    """
    errors: list[_Error] = []
    removed: frozenset[KeyPath] = frozenset()
    config: Config | None
    try:
        config = Config.model_validate(data, context=PART)
    except ValidationError as error:
        errors = [dict(detail) for detail in error.errors()]
        config, removed = _right_of(data, errors)
    doubtful = [*((name,) for name in unsure), *(path for error in errors for path in _doubtful(error, data))]
    clashes = (
        f"{dotted_key(path)}: {contradiction.words}" if path else contradiction.words
        for path, contradiction in _contradictions(config, (), removed)
        if (path or not is_part) and not any(_touches(doubtful, (*path, *key.split("."))) for key in contradiction.keys)
    )
    return config, (*mistakes_of(errors), *clashes)


def _right_of(data: Mapping[str, object], errors: Iterable[_Error]) -> tuple[Config | None, frozenset[KeyPath]]:
    """Return the valid part, and the paths removed: innermost keys, or outermost ones where that is not enough."""
    paths = [key_path(error) for error in errors]
    for removed in (frozenset(map(_removable, paths)), frozenset(path[:1] for path in paths)):
        try:
            return Config.model_validate(_without(data, (), removed), context=PART), removed
        except ValidationError:
            continue
    return None, frozenset()


def _removable(path: KeyPath) -> KeyPath:
    """Return the smallest part around the path that can be removed: a key, or a list item that has keys."""
    while len(path) > 1:
        field = field_at(path)
        is_item = isinstance(path[-1], int)
        if not (field is not None and field.is_required()) and (not is_item or holds_models(path[:-1])):
            break
        path = path[:-1]
    return path


def _without(value: object, path: KeyPath, removed: frozenset[KeyPath]) -> object:
    if isinstance(value, Mapping):
        kept = {name: inner for name, inner in value.items() if isinstance(name, str) and (*path, name) not in removed}
        return {name: _without(inner, (*path, name), removed) for name, inner in kept.items()}
    if isinstance(value, list | tuple):
        numbered = [((*path, number), item) for number, item in enumerate(value)]
        return [_without(item, inner, removed) for inner, item in numbered if inner not in removed]
    return value


def _doubtful(error: _Error, data: Mapping[str, object]) -> tuple[KeyPath, ...]:
    """Return the paths whose value may change once the mistake is corrected."""
    path = key_path(error)
    if error["type"] != "extra_forbidden":
        return (path,)
    near = nearest_name(str(path[-1]), model_at(path[:-1]).model_fields)
    meant = path[:-1] if near is None else (*path[:-1], near)
    return () if near is not None and is_given(data, meant) else (meant,)


def _touches(doubtful: Iterable[KeyPath], path: KeyPath) -> bool:
    return any(doubtful_path[: len(path)] == path[: len(doubtful_path)] for doubtful_path in doubtful)


def _contradictions(
    part: object, path: KeyPath, removed: frozenset[KeyPath]
) -> Iterator[tuple[KeyPath, Contradiction]]:
    """Yield the contradictions of each nested section, with its path in the text before `taken` was removed."""
    if isinstance(part, Section):
        yield from ((path, contradiction) for contradiction in part.contradictions())
        inner: Iterable[tuple[str | int, object]] = ((name, getattr(part, name)) for name in type(part).model_fields)
    elif isinstance(part, Mapping):
        inner = part.items()
    elif isinstance(part, tuple):
        left = (number for number in range(len(part) + len(removed)) if (*path, number) not in removed)
        inner = zip(left, part, strict=False)
    else:
        return
    for name, value in inner:
        yield from _contradictions(value, (*path, name), removed)
