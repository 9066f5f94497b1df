"""From the text of a file to keys and values; a key that stands twice is a mistake, for one of them would be lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError

__all__ = ["read"]

_MERGE = "tag:yaml.org,2002:merge"


def read(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:  # Any: whatever the text held; pydantic checks it next
    """What the file holds, and a sentence for each key that stands in it more than once.

    Raises:
        ConfigError: The file cannot be read, is no YAML or JSON, or holds no keys and values.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror}; check the path") from error
    except (ValueError, yaml.YAMLError) as error:
        kind = path.suffix.lstrip(".") or "YAML"
        raise ConfigError(f"configuration {path} is not valid {kind}{_where(error)}; mend it there") from error
    if not isinstance(data, dict | None):
        raise ConfigError(
            f"configuration {path} must hold keys and values, got {type(data).__name__}; write lines as `every: 10`"
        )
    return data or {}, tuple(_doubled(text))


def _where(error: Exception) -> str:
    """What the parser stumbled over, and in which line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" {error.context}" if error.context else ""
        return f", line {error.problem_mark.line + 1}:{context} {error.problem}"
    return f": {error}"


def _doubled(text: str) -> Iterator[str]:
    """A sentence for each key that stands more than once in one mapping; JSON is read as the YAML that it is."""
    try:
        root = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except yaml.YAMLError:  # JSON that YAML cannot read, as with `\\/`
        return
    waiting, seen = [("", root)], {id(root)}
    while waiting:
        place, node = waiting.pop(0)
        yield from _doubled_in(place, node)
        inner = [one for one in _inside(place, node) if id(one[1]) not in seen]  # an alias may lead back
        seen.update(id(one) for _, one in inner)
        waiting += inner


def _doubled_in(place: str, node: yaml.Node | None) -> Iterator[str]:
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, list[int]] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            lines.setdefault(key.value, []).append(key.start_mark.line + 1)
    for name, found in lines.items():
        if len(found) > 1:
            count = "twice" if len(found) == 2 else f"{len(found)} times"
            where = f"{', '.join(map(str, found[:-1]))} and {found[-1]}"
            yield f"key {f'{place}.{name}'.lstrip('.')!r} stands {count}, in lines {where}; keep one of them"


def _inside(place: str, node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield f"{place}.{key.value}".lstrip(".") if isinstance(key, yaml.ScalarNode) else place, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield f"{place}[{number}]", value
