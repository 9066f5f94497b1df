"""From an optimised graph to an executable: fuse, order, lower, bind."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...compiler.passes.fuse import Fused, fuse
from ...ir import Apply, Constant, Graph
from ...ir.visit import Scopes
from ...shape import Spec
from ...tensor import Array
from . import into_attention, into_kernels, into_windows
from .executable import StraightLine
from .formulas import is_element_wise
from .lower import lower
from .stepwise import Stepwise

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, *, given: dict[int, Array] | None = None) -> Callable[[Sequence[Any]], Any]:
    """The graph as a callable of arrays.

    Args:
        graph: Optimised; with control flow it is run by the reference evaluator, kernels included.
        given: Arrays that outputs are to be written to, by number of the output: the arena of an optimizer.
    """
    fused = fuse(graph, _kind, _is_alone)
    if not is_straight(fused):
        return Stepwise(fused)
    is_bound = [parameter.weight is not None for parameter in fused.parameters]
    return StraightLine(lower(fused, Scopes(fused).order(fused), is_bound, given), is_bound)


def is_straight(graph: Graph) -> bool:
    """Whether the graph calls nothing but primitives and kernels, on arrays of known shapes."""
    for node in Scopes(graph).order(graph):
        function = node.inputs[0]
        if not isinstance(function, Constant) or (isinstance(function.value, Graph) and not _is_kernel(function)):
            return False
        if any(isinstance(x, Constant) and isinstance(x.value, Graph) for x in node.arguments):
            return False
        if isinstance(node.type, Spec) and not all(isinstance(n, int) for n in node.type.shape):
            return False
    return all(isinstance(n, int) for p in graph.parameters if isinstance(p.type, Spec) for n in p.type.shape)


def _is_kernel(function: Constant) -> bool:
    return isinstance(function.value, Fused)


def _kind(node: Apply) -> Literal["element", "sum"] | None:
    """Sums over leading axes are loops that add rows; other sums are NumPy's, whose order no neighbour changes."""
    if is_element_wise(node):
        return "element"
    if (node.applies("sum_to") or node.applies("sum")) and isinstance(node.type, Spec):
        x = node.arguments[0].type
        is_known = isinstance(x, Spec) and all(isinstance(length, int) for length in x.shape)
        if is_known and isinstance(x, Spec) and x.dtype == node.type.dtype and x.dtype.name in ("float32", "float64"):
            return "sum" if _keeps_rows(node, x) else None
    return None


def _keeps_rows(node: Apply, x: Spec) -> bool:
    """Whether the innermost axis that is longer than 1 is kept by the sum."""
    long = [axis for axis, length in enumerate(x.shape) if length != 1]
    if not long:
        return False
    if node.applies("sum"):
        return long[-1] not in node.attributes["axes"]
    assert isinstance(node.type, Spec)
    place = long[-1] - len(x.shape)
    return len(node.type.shape) >= -place and node.type.shape[place] != 1


#: What gives the same bits whoever computes it: one operation of IEEE 754, or none.
_EXACT = frozenset(
    (
        "abs",
        "add",
        "broadcast_to",
        "cast",
        "divide",
        "equal",
        "greater",
        "greater_equal",
        "identity",
        "less",
        "less_equal",
    )
) | {"maximum", "minimum", "multiply", "negative", "not_equal", "sqrt", "square", "subtract", "where"}


def _is_alone(node: Apply) -> bool:
    """Whether the operation is always a generated loop: alone it must give the bits that it gives in company.

    What is observed is cut out of its group, and an observed run computes what the unobserved one does, to the bit.
    """
    function = node.inputs[0]
    return isinstance(function, Constant) and function.value.name not in _EXACT


compile_graph.writes_given = True  # type: ignore[attr-defined]
_LOADED = (into_attention, into_kernels, into_windows)  # their entries register themselves
