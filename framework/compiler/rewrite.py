"""Rewriting by patterns: what to look for, when it applies, and what takes its place.

    x = Any("x")
    twice_turned = rewrite(Call("negative", Call("negative", x)), x)

    @rewriting(Call("multiply", x, Any("one", when=is_number(1.0))))
    def times_one(found: Match) -> Node | None: ...

A pattern is matched at an application, from its inputs inwards. A variable that stands twice must meet the same node
twice. Rules are tried in order, wherever they fit, until none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import EngineError
from ..ir import Apply, Constant, Graph, Node
from .pattern import Call, Match, Pattern, built, matches
from .rebuild import rebuild

__all__ = ["Rewrite", "Rewriting", "apply_rewrites", "rewrite", "rewriting"]


# So many replacements inside each other mean that rules undo each other. Our choice.
_DEEPEST = 100


@dataclass(frozen=True)
class Rewrite:
    """One rule: `replace(match)` gives the node that stands for what `pattern` found, or None to leave it."""

    pattern: Call
    replace: Callable[[Match], Node | None]


def rewrite(pattern: Call, replacement: Pattern) -> Rewrite:
    """The rule that puts a pattern of the same variables in the place of what was found."""
    return Rewrite(pattern, lambda match: built(replacement, match))


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
    return rebuild(graph, Rewriting(by_name).rule)


class Rewriting:
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
            if not matches(rule.pattern, node, match.found):
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
