"""Rewriting by patterns: what to look for, when it applies, and what takes its place.

    x = Any("x")
    twice_turned = rewrite(Call("negative", Call("negative", x)), x)

    @rewriting(Call("multiply", x, Any("one", when=is_number(1.0))))
    def times_one(found: Match) -> Node | None: ...

A pattern is matched at an application, from its inputs inwards. A variable that stands twice must meet the same node
twice. Rules are tried in order, wherever they fit, until none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any as Unknown

from ..errors import EngineError
from ..ir import Apply, Constant, Graph, Node
from ..primitive import PRIMITIVES
from .rebuild import rebuild

__all__ = ["Any", "Call", "Match", "Rewrite", "apply_rewrites", "rewrite", "rewriting"]

# So many replacements inside each other mean that rules undo each other. Our choice.
_DEEPEST = 100


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
    rules: "_Rewriting"
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


@dataclass(frozen=True)
class Rewrite:
    """One rule: `replace(match)` gives the node that stands for what `pattern` found, or None to leave it."""

    pattern: Call
    replace: Callable[[Match], Node | None]


def rewrite(pattern: Call, replacement: Pattern) -> Rewrite:
    """The rule that puts a pattern of the same variables in the place of what was found."""
    return Rewrite(pattern, lambda match: _built(replacement, match))


def rewriting(pattern: Call) -> Callable[[Callable[[Match], Node | None]], Rewrite]:
    """The decorated function as a rule."""
    return lambda replace: Rewrite(pattern, replace)


def apply_rewrites(graph: Graph, rules: Sequence[Rewrite]) -> Graph:
    """The graph after the rules have been applied until none fits.

    One walk is enough: patterns look from an application towards its inputs, which have been rewritten before it, and
    what a rule builds is rewritten at once.

    Raises:
        EngineError: The rules never come to an end, or a replacement is of another type than what it replaces.
    """
    by_name: dict[str, list[Rewrite]] = {}
    for rule in rules:
        for name in rule.pattern.primitives:
            by_name.setdefault(name, []).append(rule)
    return rebuild(graph, _Rewriting(by_name).rule)


class _Rewriting:
    """One walk over a graph."""

    def __init__(self, rules: dict[str, list[Rewrite]]) -> None:
        self._rules = rules
        self._depth = 0

    def rule(self, node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
        """What stands for the node, or None where no rule fits."""
        if self._rules_for(inputs[0]):
            return self.rewritten(Apply(graph, inputs, node.type, node.attributes, node.where), graph)
        return None

    def rewritten(self, node: Apply, graph: Graph) -> Node:
        """The node itself, or what stands for it after all rules that fit."""
        for rule in self._rules_for(node.inputs[0]):
            match = Match(node, graph, self)
            if not _matches(rule.pattern, node, match.found):
                continue
            self._depth += 1
            if self._depth > _DEEPEST:
                raise EngineError(
                    f"rewriting '{graph.name}' did not come to an end: {_DEEPEST} replacements inside each other at "
                    f"{node!r}; do rules undo each other?"
                )
            made = rule.replace(match)
            if made is not None:
                _check_type(node, made)
                is_new = isinstance(made, Apply) and made.graph is graph and made not in match.built
                made = self.rewritten(made, graph) if is_new and isinstance(made, Apply) else made
            self._depth -= 1
            if made is not None:
                return made
        return node

    def _rules_for(self, function: Node) -> list[Rewrite]:
        name = getattr(function.value, "name", "") if isinstance(function, Constant) else ""
        return self._rules.get(name, [])


def _check_type(node: Apply, made: Node) -> None:
    if made.type != node.type:
        raise EngineError(
            f"a rewrite of {node!r} gave {made!r}: expected the type {node.type}, got {made.type}; "
            f"a replacement must keep shape and dtype"
        )


def _matches(pattern: Unknown, node: Unknown, found: dict[str, Unknown]) -> bool:
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
        if name not in node.attributes or not _matches(wanted, node.attributes[name], found):
            return False
    return all(_matches(part, x, found) for part, x in zip(pattern.arguments, node.arguments, strict=True))


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


def _built(pattern: Pattern | float, match: Match) -> Node:
    if isinstance(pattern, Any):
        node: Node = match[pattern.name]
        return node
    if not isinstance(pattern, Call):
        return Constant(pattern)
    attributes = {k: match[v.name] if isinstance(v, Any) else v for k, v in pattern.attributes.items()}
    return match.apply(pattern.primitives[0], *(_built(part, match) for part in pattern.arguments), **attributes)
