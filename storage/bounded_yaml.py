"""YAML that people write, read within bounds: no depth, alias or odd tag makes more of it than an error with a line."""

from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

__all__ = ["MOST_BYTES", "BoundedLoader", "TooMuchText", "check_bounds"]

#: The largest text that is read: our choice, some 300 times the configuration with every setting.
MOST_BYTES: Final = 2**20
#: The deepest nesting, and the most values with every alias written out: our choice. A configuration has some six
#: levels; a list of every module of a large model has some ten thousand values.
_DEEPEST: Final = 40
_MOST_VALUES: Final = 100_000
#: What PyYAML's constructors raise for a text that does not fit its tag, such as `!!timestamp x` and `!!int ''`.
_UNFIT: Final = (ValueError, LookupError, AttributeError, TypeError, OverflowError)


class TooMuchText(yaml.MarkedYAMLError, ValueError):
    """A text that is nested too deep, or that aliases blow up."""


class BoundedLoader(yaml.SafeLoader):
    """Reads plain values; raises a `YAMLError` for every text that it does not read."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        #: Values below each finished node, by its identity; the composer keeps the nodes alive.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # Any: a number, node or None
        """Compose a node, and count its levels and values."""
        if self._depth == _DEEPEST:
            event = self.peek_event()  # type: ignore[no-untyped-call]  # of the stubs
            raise TooMuchText(None, None, _TOO_DEEP, event.start_mark)
        self._depth += 1
        try:
            node = super().compose_node(parent, index)
        finally:
            self._depth -= 1
        if node is not None and id(node) not in self._sizes:
            self._sizes[id(node)] = size = self._size(node)
            if size > _MOST_VALUES:
                raise TooMuchText(None, None, _TOO_MANY, node.start_mark)
        return node

    def _size(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.SequenceNode):
            return 1 + sum(self._sizes.get(id(value), 1) for value in node.value)
        if isinstance(node, yaml.MappingNode):
            return 1 + sum(self._sizes.get(id(part), 1) for pair in node.value for part in pair)
        return 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # Any: whatever the text says
        """Construct a value; a text that does not fit its tag is an error with its line."""
        try:
            return super().construct_object(node, deep)
        except _UNFIT as error:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            words = f"{str(node.value)[:40]!r} is no {tag}" if isinstance(node, yaml.ScalarNode) else str(error)
            raise ConstructorError(None, None, words, node.start_mark) from error


_TOO_DEEP: Final = f"values stand more than {_DEEPEST} levels deep, remove levels"
_TOO_MANY: Final = f"there are more than {_MOST_VALUES:,} values here with aliases written out, remove some"


def check_bounds(data: object) -> None:
    """Check that values, which hold no alias, stand within the bounds.

    Raises:
        TooMuchText: They are nested too deep.
    """
    level = [data]
    for _ in range(_DEEPEST):
        level = [
            value
            for outer in level
            if isinstance(outer, dict | list)
            for value in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise TooMuchText(None, None, _TOO_DEEP, None)
