"""Marks taken out: they only say where observers may be put, and those have been put by now."""

from ...ir import Apply, Graph, Node
from ..rebuild import rebuild

__all__ = ["drop_marks"]


def drop_marks(graph: Graph) -> Graph:
    """In: any graph. Out: the graph with `mark(x)` replaced by `x`, and likewise the marks of gradients."""
    return rebuild(graph, _unmarked)


def _unmarked(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    return inputs[1] if node.applies("mark") or node.applies("mark_gradient") else None
