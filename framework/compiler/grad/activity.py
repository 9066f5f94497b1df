"""Which nodes a gradient has to flow through: those that depend on what is differentiated by, and can carry one."""

from collections.abc import Iterable, Iterator

from ...ir import Apply, Constant, Graph, Node
from ...ir.control import Control
from ...ir.cotangent import carries_gradient
from ...ir.types import FunctionType
from ...ir.visit import Scopes
from ...primitive import Primitive

__all__ = ["Activity", "pulled_inputs"]

#: Through which arguments of a control operation gradients flow; all of them where it is not listed.
_PATHS: dict[str, slice] = {
    "depend": slice(0, 1),
    "assign": slice(0, 1),
    "switch": slice(1, 3),
    "environment_getitem": slice(0, 1),
    "next_key": slice(0, 0),
    "host_call": slice(0, 0),
    "zero_cotangent": slice(0, 0),
    "zero_cotangent_like": slice(0, 0),
}


def pulled_inputs(node: Apply) -> Iterator[Node]:
    """The arguments of a primitive or control operation that its rules can give a gradient."""
    operation = node.function.value if isinstance(node.function, Constant) else None
    if isinstance(operation, Control):
        yield from node.arguments[_PATHS.get(operation.name, slice(None))]
    elif isinstance(operation, Primitive) and operation._joint is not None:
        yield from node.arguments
    elif isinstance(operation, Primitive):
        yield from (x for x, rule in zip(node.arguments, operation._rules, strict=False) if rule is not None)


class Activity:
    """The active nodes of a program; one answer for every node, whoever calls its graph.

    Args:
        scopes: Of the outermost graph.
        by: The nodes that are differentiated by.
    """

    def __init__(self, scopes: Scopes, by: Iterable[Node]) -> None:
        self._scopes = scopes
        self._active: set[Node] = {node for node in by if carries_gradient(node.type)}
        for graph in self._escaping():
            self._active.update(p for p in graph.parameters if carries_gradient(p.type))
        while self._spread():
            pass

    def __contains__(self, node: Node) -> bool:
        if isinstance(node, Constant):
            return isinstance(node.value, Graph) and bool(self.environment(node.value))
        return node in self._active

    def environment(self, graph: Graph) -> list[Node]:
        """The active free variables of a graph, in their order."""
        return [node for node in self._scopes.free[graph] if node in self._active]

    def targets(self, function: Node) -> list[Graph] | None:
        """The graphs that a function node can be, where that is plain to see; else None."""
        if isinstance(function, Constant):
            return [function.value] if isinstance(function.value, Graph) else None
        if isinstance(function, Apply) and function.applies("switch"):
            both = [self.targets(x) for x in function.arguments[1:]]
            return None if both[0] is None or both[1] is None else both[0] + both[1]
        return None

    def _escaping(self) -> set[Graph]:
        """The graphs that are used as values: nobody knows who calls them with what."""
        values: list[Node] = []
        for graph in self._scopes.graphs:
            values.append(graph.result)
            for user in self._scopes.order(graph):
                values += [] if user.applies("switch") else user.arguments
                if not isinstance(user.function, Constant) and self.targets(user.function) is None:
                    values.append(user.function)
        found: set[Graph] = set()
        seen: set[Node] = set()
        while values:
            node = values.pop()
            if node in seen or not isinstance(node.type, FunctionType):
                continue
            seen.add(node)
            if isinstance(node, Constant) and isinstance(node.value, Graph):
                found.add(node.value)
            elif isinstance(node, Apply) and node.applies("switch"):
                values += node.arguments[1:]
        return found

    def _spread(self) -> bool:
        """Whether one walk over the program made anything more active."""
        before = len(self._active)
        for graph in self._scopes.graphs:
            for node in self._scopes.order(graph):
                if isinstance(node.function, Constant) and isinstance(node.function.value, Primitive | Control):
                    active = any(x in self for x in pulled_inputs(node))
                else:
                    active = self._called(node)
                if active and carries_gradient(node.type):
                    self._active.add(node)
        return len(self._active) > before

    def _called(self, node: Apply) -> bool:
        """Whether the result of a call is active; active arguments make the parameters of who is called active."""
        targets = self.targets(node.function)
        if targets is None:
            return node.function in self or any(x in self for x in node.arguments)
        for graph in targets:
            for parameter, x in zip(graph.parameters, node.arguments, strict=False):
                if x in self and carries_gradient(parameter.type):
                    self._active.add(parameter)
        return any(graph.result in self for graph in targets)
