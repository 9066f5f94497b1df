"""Keys that stand more than once in one mapping of a YAML text, and the values that the last of them would hide."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

__all__ = ["Doubled", "doubled_keys", "lost_values"]

_MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Doubled:
    """A key that stands more than once in one mapping.

    Args:
        outermost: The key of the whole text in which it stands, or which it is.
        words: What is wrong.
    """

    outermost: str
    words: str


def doubled_keys(root: yaml.Node | None) -> Iterator[Doubled]:
    """Each of them, the outer ones first."""
    waiting: list[tuple[tuple[str, ...], yaml.Node | None]] = [((), root)]
    seen = {id(root)}
    while waiting:
        place, node = waiting.pop(0)
        yield from _doubled_in(place, node)
        inner = [one for one in _inside(place, node) if id(one[1]) not in seen]  # an alias may lead back
        seen.update(id(one) for _, one in inner)
        waiting += inner


def lost_values(root: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """What stands in the text and is lost when the last of equal keys is taken: outermost keys with other values.

    Each value holds one thing that is lost; so there is one for every further place of a key.
    """
    if not isinstance(root, yaml.MappingNode):
        return
    yield from ((key.value, value) for key, value in _lost_of(root, frozenset({id(root)})) if _is_name(key))


def _doubled_in(place: tuple[str, ...], node: yaml.Node | None) -> Iterator[Doubled]:
    if not isinstance(node, yaml.MappingNode):
        return
    marks: dict[str, list[yaml.Mark]] = {}
    for key, _ in node.value:
        if _is_name(key):
            marks.setdefault(key.value, []).append(key.start_mark)
    for name, found in marks.items():
        if len(found) > 1:
            count = "twice" if len(found) == 2 else f"{len(found)} times"
            whole = "".join((*place, f".{name}")).lstrip(".")
            outermost = (*place, name)[0].lstrip(".")
            yield Doubled(outermost, f"key {whole!r} stands {count}, in {_lines(found)}; keep one of them")


def _lines(marks: Sequence[yaml.Mark]) -> str:
    lines = list(dict.fromkeys(mark.line + 1 for mark in marks))
    if len(lines) == 1:
        return f"line {lines[0]}, at columns {_listed([mark.column + 1 for mark in marks])}"
    return f"lines {_listed(lines)}"


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _inside(place: tuple[str, ...], node: yaml.Node | None) -> Iterator[tuple[tuple[str, ...], yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*place, f".{key.value}") if isinstance(key, yaml.ScalarNode) else place, value
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, f"[{number}]"), value


def _is_name(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag != _MERGE


def _readings(node: yaml.Node, outer: frozenset[int]) -> list[yaml.Node]:
    """The node as it is read, the last of equal keys taken, and once more for each thing that is lost so."""
    if id(node) in outer:  # an alias that leads back
        return [node]
    inner = outer | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        parts = [_readings(value, inner) for value in node.value]
        others = [(number, one) for number, part in enumerate(parts) for one in part[1:]]
        return [node, *(_with_item(node, number, one) for number, one in others)]
    if isinstance(node, yaml.MappingNode):
        return [node, *(yaml.MappingNode(node.tag, [*node.value, lost]) for lost in _lost_of(node, inner))]
    return [node]


def _with_item(node: yaml.SequenceNode, number: int, value: yaml.Node) -> yaml.Node:
    return yaml.SequenceNode(node.tag, [*node.value[:number], value, *node.value[number + 1 :]])


def _lost_of(node: yaml.MappingNode, outer: frozenset[int]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """What does not count of a mapping, in which the last of equal keys is taken."""
    last = {key.value: number for number, (key, _) in enumerate(node.value) if _is_name(key)}
    for number, (key, value) in enumerate(node.value):
        is_taken = not _is_name(key) or last[key.value] == number
        yield from ((key, one) for one in _readings(value, outer)[1 if is_taken else 0 :])
