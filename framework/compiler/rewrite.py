"""Graphs made anew: node by node for passes, and by patterns: what to look for, when it applies, what replaces it.

A pass never changes the graph it is given. It says, for an application whose inputs have been rebuilt already, which
node stands for it in the new graph. Only what the output needs is visited, so every pass drops dead code on its way.

    x = Wildcard("x")
    twice_turned = rewrite(CallPattern("negative", CallPattern("negative", x)), x)

    @rewriting(CallPattern("multiply", x, Wildcard("one", when=is_number(1.0))))
    def times_one(found: Match) -> Node | None: ...

A pattern is matched at an application, from its inputs inwards. A variable that stands twice must meet the same node
twice. Rules are tried in order, wherever they fit, until none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import EngineError
from ..ir import Apply, ConstantNode, Graph, Node
from ..primitive import PRIMITIVES

__all__ = [
    "CallPattern",
    "Match",
    "Rewrite",
    "Rewriting",
    "Rule",
    "Wildcard",
    "apply_rewrites",
    "built",
    "matches",
    "rebuild",
    "rewrite",
    "rewriting",
]

#: `rule(node, inputs, graph)`: the node that stands for `node` in the new `graph`, or None for a plain copy.
Rule = Callable[[Apply, list[Node], Graph], "Node | None"]


def rebuild(graph: Graph, rule: Rule) -> Graph:
    """Return a new graph; inner graphs are rebuilt with it, each once."""
    return _Builder(rule).graph(graph)


class _Builder:
    """Old nodes and graphs and what stands for them."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._nodes: dict[Node, Node] = {}
        self._graphs: dict[Graph, Graph] = {}

    def graph(self, old: Graph) -> Graph:
        """Return the new graph, complete."""
        new = self._header(old)
        new.output = self._node(old.result)
        for inner, rebuilt in list(self._graphs.items()):
            if rebuilt.output is None:  # one that was only mentioned while it was in the making
                rebuilt.output = self._node(inner.result)
        return new

    def _header(self, old: Graph) -> Graph:
        new = type(old)(old.name)
        self._graphs[old] = new
        for parameter in old.parameters:
            self._nodes[parameter] = new.add_parameter(parameter.type, parameter.name, parameter.weight)
        return new

    def _node(self, root: Node) -> Node:
        """Return the new node, its inputs built before it; no recursion, graphs may be long."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self._nodes:
                stack.pop()
                continue
            missing = self._missing(node)
            if missing:
                stack.extend(missing)
                continue
            self._nodes[node] = self._make(node)
            stack.pop()
        return self._nodes[root]

    def _missing(self, node: Node) -> list[Node]:
        if isinstance(node, Apply):
            return [x for x in reversed(node.inputs) if x not in self._nodes]
        if isinstance(node, ConstantNode) and isinstance(node.value, Graph) and node.value not in self._graphs:
            self._header(node.value)
            return [node.value.result]
        return []

    def _make(self, node: Node) -> Node:
        if isinstance(node, ConstantNode):
            return self._constant(node)
        if not isinstance(node, Apply):
            raise TypeError(f"{node!r} belongs to a graph that encloses the one to be rebuilt")
        inputs = [self._nodes[x] for x in node.inputs]
        assert node.graph is not None
        home = self._graphs[node.graph]
        made = self._rule(node, inputs, home)
        return Apply(home, inputs, node.type, node.attributes, node.where) if made is None else made

    def _constant(self, node: ConstantNode) -> Node:
        if not isinstance(node.value, Graph):
            return node
        new = self._graphs[node.value]
        if new.output is None:
            new.output = self._nodes.get(node.value.result)  # None inside a recursion; filled in at the end
        return ConstantNode(new, node.type)


@dataclass(frozen=True, eq=False)
class Wildcard:
    """A variable: any node for which `when` holds; an attribute of any value where it stands for one."""

    name: str
    when: Callable[[Any], bool] | None = None  # of a node, or of the value of an attribute


class CallPattern:
    """An application of a primitive (or of one of several) to arguments that match.

    Args:
        primitives: Its name, or a tuple of names.
        arguments: A pattern for each argument; a number stands for a constant equal to it.
        attributes: Required values, or variables; attributes that are not named may be anything.
    """

    __slots__ = ("arguments", "attributes", "primitives")

    def __init__(self, primitives: str | tuple[str, ...], *arguments: "Pattern | float", **attributes: object) -> None:
        self.primitives = (primitives,) if isinstance(primitives, str) else primitives
        self.arguments = arguments
        self.attributes = attributes


Pattern = Wildcard | CallPattern


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
    found: dict[str, Any] = field(default_factory=dict)
    built: set[Node] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:  # a node, or the value of an attribute
        """Return what a variable stands for."""
        return self.found[name]

    def apply(self, primitive: str, *arguments: Node | float, **attributes: object) -> Node:
        """Return a new application, at the place of the old, or what the rules make of it."""
        nodes = [x if isinstance(x, Node) else ConstantNode(x) for x in arguments]
        made = self.graph.apply(PRIMITIVES[primitive], *nodes, where=self.node.where, **attributes)
        found = self.rules.rewritten(made, self.graph)
        self.built.add(found)
        return found


def matches(pattern: object, node: object, found: dict[str, object]) -> bool:
    """Return whether a node is as the pattern says; what its parts stand for is added to `found`."""
    if isinstance(pattern, Wildcard):
        if pattern.name in found:
            return bool(found[pattern.name] is node or (not isinstance(node, Node) and found[pattern.name] == node))
        if pattern.when is not None and not pattern.when(node):
            return False
        found[pattern.name] = node
        return True
    if isinstance(pattern, CallPattern):
        return _matches_call(pattern, node, found)
    if isinstance(node, ConstantNode):
        return isinstance(pattern, int | float) and is_number(pattern)(node)
    return not isinstance(node, Node) and bool(pattern == node)


def _matches_call(pattern: CallPattern, node: object, found: dict[str, object]) -> bool:
    if not isinstance(node, Apply) or len(node.inputs) != len(pattern.arguments) + 1:
        return False
    if not any(node.applies(name) for name in pattern.primitives):
        return False
    for name, wanted in pattern.attributes.items():
        if name not in node.attributes or not matches(wanted, node.attributes[name], found):
            return False
    return all(matches(part, x, found) for part, x in zip(pattern.arguments, node.arguments, strict=True))


def is_number(number: float) -> Callable[[object], bool]:
    """Return whether a node is a constant whose every element is that number (0.0 is not -0.0)."""

    def check(node: object) -> bool:
        if not isinstance(node, ConstantNode):
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
    """Return the nodes of a pattern whose parts were found."""
    if isinstance(pattern, Wildcard):
        node: Node = match[pattern.name]
        return node
    if not isinstance(pattern, CallPattern):
        return ConstantNode(pattern)
    attributes = {k: match[v.name] if isinstance(v, Wildcard) else v for k, v in pattern.attributes.items()}
    return match.apply(pattern.primitives[0], *(built(part, match) for part in pattern.arguments), **attributes)


# So many replacements inside each other mean that rules undo each other. Our choice.
_DEEPEST = 100


@dataclass(frozen=True)
class Rewrite:
    """One rule: `replace(match)` gives the node that stands for what `pattern` found, or None to leave it."""

    pattern: CallPattern
    replace: Callable[[Match], Node | None]


def rewrite(pattern: CallPattern, replacement: Pattern) -> Rewrite:
    """Return the rule that puts a pattern of the same variables in the place of what was found."""
    return Rewrite(pattern, lambda match: built(replacement, match))


def rewriting(pattern: CallPattern) -> Callable[[Callable[[Match], Node | None]], Rewrite]:
    """Return the decorated function as a rule."""
    return lambda replace: Rewrite(pattern, replace)


def apply_rewrites(graph: Graph, rules: Sequence[Rewrite]) -> Graph:
    """Return the graph after the rules have been applied until none fits.

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
        """Return what stands for the node, or None where no rule fits."""
        if self._rules_for(inputs[0]):
            return self.rewritten(Apply(graph, inputs, node.type, node.attributes, node.where), graph)
        return None

    def rewritten(self, node: Apply, graph: Graph) -> Node:
        """Return the node itself, or what stands for it after all rules that fit."""
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
        name = getattr(function.value, "name", "") if isinstance(function, ConstantNode) else ""
        return self._rules.get(name, [])


def _check_type(node: Apply, made: Node) -> None:
    if made.type != node.type:
        raise EngineError(
            f"a rewrite of {node!r} gave {made!r}: expected the type {node.type}, got {made.type}; "
            f"a replacement must keep shape and dtype"
        )
