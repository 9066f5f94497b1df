"""Reads the text of a configuration file; a duplicate key is a mistake, since one of its values would be lost."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ...storage.bounded_yaml import MOST_BYTES, BoundedLoader, TooMuchText, check_bounds
from ..errors import ConfigError

__all__ = ["DuplicateKey", "Text", "duplicate_keys", "overwritten_values", "read"]

#: Suffixes of known formats; any other file is read as YAML.
_KINDS: Final = (".yaml", ".yml", ".json")


class _Loader(BoundedLoader):
    """Reads 1e3 as the number that it is in JSON and in YAML 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclass(frozen=True, slots=True)
class Text:
    """The contents of a configuration file.

    Args:
        data: Keys and values; of a key that stands twice the last.
        mistakes: A sentence for each key that stands more than once in a mapping.
        doubled: The first parts of the places of these keys.
        lost: The values that another hides, each under its outermost key.
    """

    data: dict[str, object]
    mistakes: tuple[str, ...] = ()
    doubled: frozenset[str] = frozenset()
    lost: tuple[dict[str, object], ...] = ()


_NOTHING: Final = Text({})


def read(path: Path) -> Text:
    """Read the file's keys and values, and what is wrong with it as a text.

    Raises:
        ConfigError: The file cannot be read, is no YAML or JSON, or holds no keys and values.
    """
    text = _text(path)
    try:
        data = _json(text) if path.suffix == ".json" else yaml.load(text, _Loader)
        found = _with_doubled(data, text) if isinstance(data, dict) else None
    except (ValueError, yaml.YAMLError) as error:
        kind = path.suffix.lstrip(".") if path.suffix in _KINDS else "YAML"
        raise ConfigError(f"configuration {path} is not valid {kind}{_where(error)}; mend it there") from error
    if data is None:
        return _NOTHING
    if found is None:
        raise ConfigError(
            f"configuration {path} must hold keys and values, got {type(data).__name__}; write lines as `every: 10`"
        )
    return found


def _text(path: Path) -> str:
    """Return the whole text; a file that never ends, such as /dev/zero, is not read to its end."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        words = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"configuration {path} cannot be read: {words}; check the path") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(
            f"configuration {path} is larger than {MOST_BYTES >> 10} KB; a configuration holds a few settings, check "
            f"the path"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"configuration {path} must be text in UTF-8, got the byte 0x{content[error.start]:02x} at place "
            f"{error.start}; save it as UTF-8, or check the path"
        ) from error


def _json(text: str) -> object:
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deep") from error
    check_bounds(data)
    return data


def _where(error: Exception) -> str:
    """Describe the parser's error and its line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" {error.context}" if error.context else ""
        return f", line {error.problem_mark.line + 1}:{context} {error.problem}"
    return f": {error}"


def _with_doubled(data: dict[str, object], text: str) -> Text:
    """Add the duplicate keys of the text; JSON is read as the YAML that it is."""
    loader = _Loader(text.replace("\t", " "))
    try:
        root = loader.get_single_node()
        found = list(duplicate_keys(root))
        hidden = (
            list(overwritten_values(root)) if found else []
        )  # all of them before constructing, which merges nodes for good
        lost = tuple({name: loader.construct_document(node)} for name, node in hidden)
    except TooMuchText:
        raise
    except yaml.YAMLError:  # JSON that YAML cannot read, as with `\\/`
        return Text(data)
    finally:
        loader.dispose()
    return Text(
        data, tuple(duplicate.words for duplicate in found), frozenset(duplicate.outermost for duplicate in found), lost
    )


_MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that stands more than once in one mapping.

    Args:
        outermost: The key of the whole text in which it stands, or which it is.
        words: What is wrong.
    """

    outermost: str
    words: str


def duplicate_keys(root: yaml.Node | None) -> Iterator[DuplicateKey]:
    """Yield each duplicate key, outer mappings first."""
    waiting: list[tuple[tuple[str, ...], yaml.Node | None]] = [((), root)]
    seen = {id(root)}
    while waiting:
        path, node = waiting.pop(0)
        yield from _doubled_in(path, node)
        inner = [entry for entry in _inside(path, node) if id(entry[1]) not in seen]  # an alias may lead back
        seen.update(id(inner_node) for _, inner_node in inner)
        waiting += inner


def overwritten_values(root: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Yield what is lost when the last of equal keys wins: outermost keys with their other values.

    Each value holds one thing that is lost; so there is one for every further place of a key.
    """
    if not isinstance(root, yaml.MappingNode):
        return
    yield from ((key.value, value) for key, value in _lost_of(root, frozenset({id(root)})) if _is_name(key))


def _doubled_in(path: tuple[str, ...], node: yaml.Node | None) -> Iterator[DuplicateKey]:
    if not isinstance(node, yaml.MappingNode):
        return
    marks: dict[str, list[yaml.Mark]] = {}
    for key, _ in node.value:
        if _is_name(key):
            marks.setdefault(key.value, []).append(key.start_mark)
    for name, found in marks.items():
        if len(found) > 1:
            count = "twice" if len(found) == 2 else f"{len(found)} times"
            dotted = "".join((*path, f".{name}")).lstrip(".")
            outermost = (*path, name)[0].lstrip(".")
            yield DuplicateKey(outermost, f"key {dotted!r} stands {count}, in {_lines(found)}; keep one of them")


def _lines(marks: Sequence[yaml.Mark]) -> str:
    lines = list(dict.fromkeys(mark.line + 1 for mark in marks))
    if len(lines) == 1:
        return f"line {lines[0]}, at columns {_listed([mark.column + 1 for mark in marks])}"
    return f"lines {_listed(lines)}"


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _inside(path: tuple[str, ...], node: yaml.Node | None) -> Iterator[tuple[tuple[str, ...], yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, f".{key.value}") if isinstance(key, yaml.ScalarNode) else path, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*path, f"[{number}]"), value


def _is_name(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag != _MERGE


def _readings(node: yaml.Node, outer: frozenset[int]) -> list[yaml.Node]:
    """Return the node with the last of equal keys, and one variant more for each value that is lost so."""
    if id(node) in outer:  # an alias that leads back
        return [node]
    inner = outer | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        parts = [_readings(value, inner) for value in node.value]
        others = [(number, reading) for number, part in enumerate(parts) for reading in part[1:]]
        return [node, *(_with_item(node, number, reading) for number, reading in others)]
    if isinstance(node, yaml.MappingNode):
        return [node, *(yaml.MappingNode(node.tag, [*node.value, lost]) for lost in _lost_of(node, inner))]
    return [node]


def _with_item(node: yaml.SequenceNode, number: int, value: yaml.Node) -> yaml.Node:
    return yaml.SequenceNode(node.tag, [*node.value[:number], value, *node.value[number + 1 :]])


def _lost_of(node: yaml.MappingNode, outer: frozenset[int]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the entries of a mapping that are lost when the last of equal keys wins."""
    last = {key.value: number for number, (key, _) in enumerate(node.value) if _is_name(key)}
    for number, (key, value) in enumerate(node.value):
        is_taken = not _is_name(key) or last[key.value] == number
        yield from ((key, reading) for reading in _readings(value, outer)[1 if is_taken else 0 :])
