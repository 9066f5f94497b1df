"""A graph, from a file or built by a program, as a cell."""

from typing import Any

from ..compiler.compiled import Compiled
from ..compiler.jit import jit
from ..context import CAPTURE
from ..errors import ShapeError
from ..ir import Graph, Node, OpaqueType
from ..ir.bind import bind
from ..ir.clone import inline
from ..ir.printer import type_text
from ..nn.cell import Cell
from ..random import next_key
from ..shape import Spec
from ..symbolic import unify
from ..tensor import Parameter, Tensor

__all__ = ["GraphCell"]


class GraphCell(Cell):
    """Runs a graph: compiled, differentiable, its weights the parameters of this cell.

    Args:
        graph: As `load` returns it. Its weights keep their names; random keys are taken anew for every call.

    Example:
        >>> net = nn.GraphCell(load("net.mindir"))
        >>> y = net(x)
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        for number, parameter in enumerate(graph.weights):
            if isinstance(parameter.weight, Parameter):
                _place(self, parameter.name or f"weight{number}", parameter.weight)
        for name, weight in self.parameters_and_names():
            weight.name = name
        self._compiled: Compiled = jit(self._inlined, capture_mode="trace")

    def construct(self, *inputs: Tensor) -> Any:
        """What the graph returns: a tensor, or tuples of them.

        Raises:
            ShapeError: The inputs are not those that the graph was captured for.
        """
        self._lengths(inputs)
        return self._compiled(*inputs)

    def _lengths(self, inputs: tuple[Tensor, ...]) -> dict[str, int]:
        """What the symbolic lengths are for these inputs."""
        wanted = [p.type for p in self.graph.arguments() if not isinstance(p.type, OpaqueType)]
        given = [Spec(x.shape, x.dtype) for x in inputs]
        known: dict[str, int] = {}
        fits = len(wanted) == len(given) and all(
            isinstance(a, Spec) and a.dtype == b.dtype and unify(a.shape, b.shape, known)
            for a, b in zip(wanted, given, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"graph '{self.graph.name}' takes ({', '.join(type_text(x) for x in wanted)}), "
                f"got ({', '.join(type_text(x) for x in given)})"
            )
        return known

    def _inlined(self, *inputs: Tensor) -> Any:
        """The graph's body, written into the graph that is being captured."""
        capture: Any = CAPTURE.get()
        if capture is None:
            kinds = ", ".join(type(x).__name__ for x in inputs)
            raise TypeError(
                f"a GraphCell runs on plain tensors, got {kinds}; for those use the cell it was captured from"
            )
        rest = iter(inputs)
        nodes: list[Node] = []
        for parameter in self.graph.parameters:
            if isinstance(parameter.weight, Parameter):
                nodes.append(capture.node_of(parameter.weight))
            else:
                is_key = isinstance(parameter.type, OpaqueType)
                nodes.append(capture.node_of(next_key() if is_key else next(rest)))
        lengths = self._lengths(inputs)
        graph = bind(self.graph, lengths) if lengths else self.graph
        return capture.value_of(inline(graph, nodes, capture.graph))


def _place(root: Cell, name: str, parameter: Parameter) -> None:
    """Nothing; the parameter becomes part of the cell under a dotted name."""
    *parents, last = name.split(".")
    cell = root
    for part in parents:
        below = cell.name_cells().get(part)
        if below is None:
            below = Cell()
            cell.insert_child_to_cell(part, below)
        cell = below
    setattr(cell, last, parameter)
