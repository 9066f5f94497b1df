"""From an optimised graph to an executable."""

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler import vm
from ...ir import Graph

__all__ = ["compile_graph"]


def compile_graph(graph: Graph) -> Callable[[Sequence[Any]], Any]:
    """The graph as a callable of arrays."""
    return lambda arguments: vm.evaluate(graph, list(arguments))
