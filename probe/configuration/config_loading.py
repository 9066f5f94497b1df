"""Loads a configuration from a file, a mapping or keywords; all mistakes become one message."""

import logging
from collections.abc import Mapping
from pathlib import Path

from ..errors import ConfigError
from .config import Config
from .msprobe_config import is_msprobe, translate
from .validation import validate
from .yaml_text import Text, read

__all__ = ["examine", "load_config"]

_log = logging.getLogger(__name__)
_Source = Config | Mapping[str, object] | str | Path | None


def load_config(source: _Source = None, **fields: object) -> Config:
    """Return the configuration from a file, a mapping or the defaults, overridden by keywords.

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
    source: _Source, fields: Mapping[str, object] | None = None, *, is_part: bool = False
) -> tuple[Config | None, tuple[str, ...]]:
    """Return the configuration without its invalid parts, and a sentence for each mistake.

    Args:
        source: As in `load_config`.
        fields: Fields of `Config` that replace those of the source.
        is_part: These fields are laid over others, and need not agree as a whole.

    Returns:
        No configuration where what is right of it is none.

    Raises:
        ConfigError: The source is none, or cannot be read.
    """
    if not isinstance(source, Config | Mapping | str | Path | None):
        raise ConfigError(
            "configuration must be a YAML or JSON file, a mapping or a Config, "
            f"got {type(source).__name__} {source!r}; leave it out to record everything"
        )
    if isinstance(source, Config):
        source = source.model_dump(exclude_unset=True)
    text = read(Path(source)) if isinstance(source, str | Path) else Text(dict(source or {}))
    data, lost = text.data, text.lost
    if is_msprobe(data):
        try:
            data, notes = translate(data)
        except ConfigError as error:
            return None, (*text.mistakes, *error.mistakes)
        lost = ()
        for note in notes:
            _log.warning("%s is one of msprobe; %s", _named(source), note)
    config, found = validate({**data, **(fields or {})}, unsure=text.doubled, is_part=is_part)
    hidden = [words for part in lost for words in validate(part, is_part=True)[1]]
    return config, tuple(dict.fromkeys((*text.mistakes, *found, *hidden)))
