"""From a file, a mapping or keywords to a configuration, or to one message that says all that is wrong with it."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ..errors import ConfigError
from .config import PART, Config
from .mistakes import mistakes_of
from .msprobe import is_msprobe, translate
from .text import read

__all__ = ["examine", "load_config"]

_log = logging.getLogger(__name__)
#: Keys that decide together whether a configuration agrees with itself.
_TOGETHER: Final = frozenset(
    {"every", "subjects", "histograms", "flight_recorder", "around", "dump", "on_finding", "budget"}
)

_Source = Config | Mapping[str, Any] | str | Path | None  # Any: whatever the text held; pydantic checks it next


def load_config(source: _Source = None, **fields: Any) -> Config:
    """The configuration from a file, a mapping or nothing, with keywords laid over it.

    Args:
        source: A YAML or JSON file, the fields themselves, or a finished `Config`; a monitor configuration of msprobe
            is translated, with a warning for each key that means nothing here.
        fields: Fields of `Config` that replace those of the source.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, a value is wrong, or two settings contradict; all that
            is wrong is told at once.
    """
    if isinstance(source, Config) and not fields:
        return source
    config, mistakes = examine(source, fields)
    if config is None or mistakes:
        raise ConfigError(f"{_named(source)}: {'; '.join(mistakes)}", mistakes)
    return config


def _named(source: _Source) -> str:
    return f"configuration {source}" if isinstance(source, str | Path) else "configuration"


def examine(
    source: _Source, fields: Mapping[str, Any] | None = None, *, is_part: bool = False
) -> tuple[Config | None, tuple[str, ...]]:
    """The configuration, without what is wrong of it, and a sentence for each mistake.

    Args:
        source: As in `load_config`.
        fields: Fields of `Config` that replace those of the source.
        is_part: These fields are laid over others, and need not agree as a whole.

    Returns:
        No configuration where what is right of it is none.

    Raises:
        ConfigError: The source is none, cannot be read or translated.
    """
    if not isinstance(source, Config | Mapping | str | Path | None):
        raise ConfigError(
            "configuration must be a YAML or JSON file, a mapping or a Config, "
            f"got {type(source).__name__} {source!r}; leave it out to record everything"
        )
    if isinstance(source, Config):
        source = source.model_dump(exclude_unset=True)
    data, doubled = read(Path(source)) if isinstance(source, str | Path) else (dict(source or {}), ())
    if is_msprobe(data):
        data, notes = translate(data)
        for note in notes:
            _log.warning("%s is one of msprobe; %s", _named(source), note)
    data = {**data, **(fields or {})}
    config: Config | None
    found: tuple[str, ...] = ()
    try:
        config, wrong = Config.model_validate(data, context=PART), frozenset[str]()
    except ValidationError as error:
        found = mistakes_of(error.errors())
        config, wrong = _without(data, [one["loc"] for one in error.errors()])
    may_agree = wrong.isdisjoint(_TOGETHER) and wrong <= Config.model_fields.keys() and not is_part
    together = tuple(config.contradictions()) if config is not None and may_agree else ()
    return config, (*doubled, *found, *together)


def _without(data: Mapping[str, Any], places: Iterable[tuple[str | int, ...]]) -> tuple[Config | None, frozenset[str]]:
    """The configuration without what is wrong, none where that is none, and the keys with something wrong."""
    wrong = frozenset(str(place[0]) for place in places if place)
    rest = {name: value for name, value in data.items() if name not in wrong}
    entries = data.get("on_finding")
    if isinstance(entries, list):  # reactions are told one by one
        bad = {place[1] for place in places if place[0] == "on_finding" and len(place) > 1}
        rest["on_finding"] = [one for number, one in enumerate(entries) if number not in bad]
    try:
        return Config.model_validate(rest, context=PART), wrong
    except ValidationError:
        return None, wrong
