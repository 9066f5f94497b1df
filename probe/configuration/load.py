"""From a file, a mapping or keywords to a configuration, or to one message that says all that is wrong with it."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ...storage.errors import nearest
from ..errors import ConfigError
from .cadence import Cadence
from .config import Config, Queue
from .dumps import Dump
from .flight import Around, FlightRecorder
from .histograms import Histograms
from .msprobe import is_msprobe, translate
from .reactions import Address, Reaction, Watch
from .routers import Router

_log = logging.getLogger(__name__)
_MODELS: Mapping[str, type[BaseModel]] = {
    "": Config,
    "histograms": Histograms,
    "queue": Queue,
    "subjects": Cadence,
    "flight_recorder": FlightRecorder,
    "around": Around,
    "dump": Dump,
    "routers": Router,
    "watchpoints": Watch,
    "on_finding": Reaction,
    "webhook": Address,
}


def load_config(source: Config | Mapping[str, Any] | str | Path | None = None, **fields: Any) -> Config:
    """The configuration from a file, a mapping or nothing, with keywords laid over it.

    Args:
        source: A YAML or JSON file, the fields themselves, or a finished `Config`; a monitor configuration of msprobe
            is translated, with a warning for each key that means nothing here.
        fields: Fields of `Config` that replace those of the source.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, a value is wrong, or two settings contradict.
    """
    if not isinstance(source, Config | Mapping | str | Path | None):
        raise ConfigError(
            "configuration must be a YAML or JSON file, a mapping or a Config, "
            f"got {type(source).__name__} {source!r}; leave it out to record everything"
        )
    if isinstance(source, Config) and not fields:
        return source
    if isinstance(source, Config):
        source = source.model_dump(exclude_unset=True)
    where = f"configuration {source}" if isinstance(source, str | Path) else "configuration"
    data = _read(Path(source)) if isinstance(source, str | Path) else dict(source or {})
    if is_msprobe(data):
        data, notes = translate(data)
        for note in notes:
            _log.warning("%s is one of msprobe; %s", where, note)
    try:
        return Config.model_validate({**data, **fields})
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_explain(dict(one)) for one in error.errors())) from None


def _read(path: Path) -> dict[str, Any]:  # Any: whatever the text held; pydantic checks it next
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror}; check the path") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"configuration {path} is not valid {path.suffix.lstrip('.') or 'YAML'}: {error}") from error
    if not isinstance(data, dict | None):
        raise ConfigError(f"configuration {path} must hold keys and values, got {type(data).__name__}")
    return data or {}


def _explain(error: Mapping[str, Any]) -> str:  # Any: pydantic's own error dict
    place = [str(part) for part in error["loc"]]
    key = ".".join(place)
    if error["type"] == "extra_forbidden":
        model = Cadence if "when" in place[:-1] else _MODELS[place[0] if len(place) > 1 else ""]
        return f"unknown key {key!r}{nearest(place[-1], model.model_fields)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    words = f"{message[:1].lower()}{message[1:]}"
    if not key:
        return words
    return f"{key}: {words}" + (f", got {error['input']!r}" if error["type"] != "value_error" else "")
