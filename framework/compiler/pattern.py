"""Patterns of nodes: what to look for, what was found, and what is built of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Any as Unknown

from ..ir import Apply, Constant, Graph, Node
from ..primitive import PRIMITIVES

if TYPE_CHECKING:
    from .rewrite import Rewriting

__all__ = ["Any", "Call", "Match", "built", "matches"]


@dataclass(frozen=True, eq=False)
class Any:
    """A variable: any node for which `when` holds; an attribute of any value where it stands for one."""

    name: str
    when: Callable[[Unknown], bool] | None = None


class Call:
    """An application of a primitive (or of one of several) to arguments that match.

    Args:
        primitives: Its name, or a tuple of names.
        arguments: A pattern for each argument; a number stands for a constant equal to it.
        attributes: Required values, or variables; attributes that are not named may be anything.
    """

    __slots__ = ("arguments", "attributes", "primitives")

    def __init__(self, primitives: str | tuple[str, ...], *arguments: "Pattern | float", **attributes: Unknown) -> None:
        self.primitives = (primitives,) if isinstance(primitives, str) else primitives
        self.arguments = arguments
        self.attributes = attributes


Pattern = Any | Call


@dataclass
class Match:
    """What a pattern has found, and the means to build what takes its place.

    Attributes:
        node: The application as a whole.
        graph: The graph that new nodes belong to.
        rules: Those that new nodes are rewritten by in their turn.
        found: Nodes, or attributes, by the name of their variable.
        built: Nodes made so far.
    """

    node: Apply
    graph: Graph
    rules: "Rewriting"
    found: dict[str, Unknown] = field(default_factory=dict)
    built: set[Node] = field(default_factory=set)

    def __getitem__(self, name: str) -> Unknown:
        """What a variable stands for."""
        return self.found[name]

    def apply(self, primitive: str, *arguments: Node | float, **attributes: Unknown) -> Node:
        """A new application, at the place of the old, or what the rules make of it."""
        nodes = [x if isinstance(x, Node) else Constant(x) for x in arguments]
        made = self.graph.apply(PRIMITIVES[primitive], *nodes, where=self.node.where, **attributes)
        found = self.rules.rewritten(made, self.graph)
        self.built.add(found)
        return found


def matches(pattern: Unknown, node: Unknown, found: dict[str, Unknown]) -> bool:
    """Whether a node is as the pattern says; what its parts stand for is added to `found`."""
    if isinstance(pattern, Any):
        if pattern.name in found:
            return bool(found[pattern.name] is node or (not isinstance(node, Node) and found[pattern.name] == node))
        if pattern.when is not None and not pattern.when(node):
            return False
        found[pattern.name] = node
        return True
    if isinstance(pattern, Call):
        return _matches_call(pattern, node, found)
    if isinstance(node, Constant):
        return bool(is_number(pattern)(node))
    return not isinstance(node, Node) and bool(pattern == node)


def _matches_call(pattern: Call, node: Unknown, found: dict[str, Unknown]) -> bool:
    if not isinstance(node, Apply) or len(node.inputs) != len(pattern.arguments) + 1:
        return False
    if not any(node.applies(name) for name in pattern.primitives):
        return False
    for name, wanted in pattern.attributes.items():
        if name not in node.attributes or not matches(wanted, node.attributes[name], found):
            return False
    return all(matches(part, x, found) for part, x in zip(pattern.arguments, node.arguments, strict=True))


def is_number(number: float) -> Callable[[Unknown], bool]:
    """Whether a node is a constant whose every element is that number (0.0 is not -0.0)."""

    def check(node: Unknown) -> bool:
        if not isinstance(node, Constant):
            return False
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = getattr(value, "_data", None)
            if value is None or value.size != 1 or value.dtype.kind not in "iuf":
                return False
            value = value.item()
        return repr(float(value)) == repr(float(number))

    return check


def built(pattern: Pattern | float, match: Match) -> Node:
    """The nodes of a pattern whose parts were found."""
    if isinstance(pattern, Any):
        node: Node = match[pattern.name]
        return node
    if not isinstance(pattern, Call):
        return Constant(pattern)
    attributes = {k: match[v.name] if isinstance(v, Any) else v for k, v in pattern.attributes.items()}
    return match.apply(pattern.primitives[0], *(built(part, match) for part in pattern.arguments), **attributes)
