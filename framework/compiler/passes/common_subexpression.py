"""Equal applications computed once."""

from typing import Any

from ...ir import Apply, Constant, Graph, Node
from ...ir.control import Control
from ...primitive import Primitive
from ..rebuild import rebuild

__all__ = ["share_common"]


def share_common(graph: Graph) -> Graph:
    """In: any graph. Out: of applications of one primitive to the same nodes with equal attributes, one is left.

    Effects and calls of graphs are kept apart. An inner graph shares its own applications, not those around it.
    """
    known: dict[Any, Node] = {}

    def rule(node: Apply, inputs: list[Node], home: Graph) -> Node | None:
        function = inputs[0]
        if not isinstance(function, Constant) or not is_pure(function.value):
            return None
        key = (id(home), function.value, tuple(map(_identity, inputs[1:])), _frozen(node.attributes))
        try:
            found = known.get(key)
        except TypeError:  # an attribute that cannot be hashed
            return None
        if found is None:
            found = known[key] = Apply(home, inputs, node.type, node.attributes, node.where)
        return found

    return rebuild(graph, rule)


def is_pure(function: Any) -> bool:
    """Whether applying it twice is the same as once: a primitive, or a control operation without effect."""
    if isinstance(function, Control):
        return not function.is_effect
    return isinstance(function, Primitive) and not getattr(function, "is_effect", False)


def _identity(node: Node) -> Any:
    if isinstance(node, Constant) and isinstance(node.value, bool | int | float | complex | str | None):
        return (type(node.value), repr(node.value))  # 0.0 and -0.0 are equal and not the same
    return node


def _frozen(attributes: dict[str, Any]) -> Any:
    return tuple((name, repr(attributes[name]), attributes[name]) for name in sorted(attributes))
