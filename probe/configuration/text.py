"""From the text of a file to keys and values; a key that stands twice is a mistake, for one of them would be lost."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ..errors import ConfigError
from .doubled import doubled_keys, lost_values

__all__ = ["Text", "read"]

#: Endings that say what a file is; any other is read as YAML.
_KINDS: Final = (".yaml", ".yml", ".json")


class _Loader(yaml.SafeLoader):
    """Reads 1e3 as the number that it is in JSON and in YAML 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclass(frozen=True, slots=True)
class Text:
    """What a file holds.

    Args:
        data: Keys and values; of a key that stands twice the last.
        mistakes: A sentence for each key that stands more than once in a mapping.
        doubled: The first parts of the places of these keys.
        lost: The values that another hides, each under its outermost key.
    """

    data: dict[str, Any]  # Any: whatever the text held; pydantic checks it next
    mistakes: tuple[str, ...] = ()
    doubled: frozenset[str] = frozenset()
    lost: tuple[dict[str, Any], ...] = ()


_NOTHING: Final = Text({})


def read(path: Path) -> Text:
    """What the file holds, and what is wrong with it as a text.

    Raises:
        ConfigError: The file cannot be read, is no YAML or JSON, or holds no keys and values.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.load(text, _Loader)
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror}; check the path") from error
    except (ValueError, yaml.YAMLError) as error:
        kind = path.suffix.lstrip(".") if path.suffix in _KINDS else "YAML"
        raise ConfigError(f"configuration {path} is not valid {kind}{_where(error)}; mend it there") from error
    if data is None:
        return _NOTHING
    if not isinstance(data, dict):
        raise ConfigError(
            f"configuration {path} must hold keys and values, got {type(data).__name__}; write lines as `every: 10`"
        )
    return _with_doubled(data, text)


def _where(error: Exception) -> str:
    """What the parser stumbled over, and in which line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" {error.context}" if error.context else ""
        return f", line {error.problem_mark.line + 1}:{context} {error.problem}"
    return f": {error}"


def _with_doubled(data: dict[str, Any], text: str) -> Text:
    """The same with what is wrong of its keys; JSON is read as the YAML that it is."""
    loader = _Loader(text.replace("\t", " "))
    try:
        root = loader.get_single_node()
        found = list(doubled_keys(root))
        hidden = list(lost_values(root)) if found else []  # all of them first: to construct is to merge for good
        lost = tuple({name: loader.construct_document(node)} for name, node in hidden)
    except yaml.YAMLError:  # JSON that YAML cannot read, as with `\\/`
        return Text(data)
    finally:
        loader.dispose()
    return Text(data, tuple(one.words for one in found), frozenset(one.outermost for one in found), lost)
