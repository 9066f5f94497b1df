"""Networks as files: `export` captures a network and writes its graph, `load` reads it, `nn.GraphCell` runs it.

    export(net, x, file_name="net.mindir")
    net = nn.GraphCell(load("net.mindir"))

The file holds the whole function and its weights; the Python code that it came from is not needed to run or train it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from . import compiler
from .compiler.capture import GraphCapture
from .compiler.captured_graph import Captured
from .compiler.jit import CAPTURE_MODES, Compiled, jit
from .compiler.signature import ArgumentStructure, Leaf, Signature, flatten
from .context import CAPTURE
from .errors import ShapeError
from .ir import Graph, Node, OpaqueType
from .ir.clone import bind, inline
from .ir.control_ops import depend, make_tuple
from .ir.ir_graph import Apply
from .ir.mindir_file import MindIRError, load, save
from .ir.printer import type_text
from .nn.cell import Cell
from .random import next_key
from .specs import Spec
from .symbolic import unify
from .tensor import Parameter, Tensor

__all__ = ["GraphCell", "MindIRError", "export", "graph_of", "load"]


def graph_of(net: Callable[..., object], inputs: Sequence[object], *, capture_mode: str = "ast") -> Graph:
    """Capture the graph of a cell or function for inputs of these types; it returns the same, lists as tuples."""
    leaves: list[Leaf] = []
    structure = flatten((tuple(_leaf(x) for x in inputs), {}), leaves)
    specs = tuple(x.spec if isinstance(x, _Input) else Signature.from_leaves(structure, [x]).specs[0] for x in leaves)
    module, function = CAPTURE_MODES[capture_mode]
    captured: Captured = getattr(import_module(module, compiler.__name__), function)(
        net, Signature(structure, specs, (False,) * len(specs))
    )
    if captured.actions:
        raise MindIRError(
            f"'{captured.graph.name}' steps an optimizer or sets gradients, which a file cannot hold; export the "
            f"network, not its training step"
        )
    return _nested(captured)


class _Input(Tensor):
    """An input of which only the type is known."""

    __slots__ = ("spec",)

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.requires_grad = False


def _leaf(value: object) -> object:
    if isinstance(value, Spec):
        return _Input(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_leaf(part) for part in value)
    return {key: _leaf(part) for key, part in value.items()} if isinstance(value, dict) else value


def _nested(captured: Captured) -> Graph:
    """Return the graph, returning a tensor or nested tuples where the capture returns one flat tuple."""
    graph = captured.graph
    whole = graph.result
    effects: list[Node] = []
    while isinstance(whole, Apply) and whole.applies("depend"):
        effects += whole.arguments[1:]
        whole = whole.arguments[0]
    assert isinstance(whole, Apply)
    result = _gathered(graph, captured.structure, iter(whole.arguments))
    graph.output = graph.apply(depend, result, *effects) if effects else result
    return graph


def _gathered(graph: Graph, structure: ArgumentStructure, leaves: Iterator[Node]) -> Node:
    if structure.kind == "leaf":
        return next(leaves)
    if structure.kind == "static":
        raise MindIRError(
            f"'{graph.name}' returns {structure.keys.value!r}, which is no tensor; return tensors, in tuples if several"
        )
    return graph.apply(make_tuple, *(_gathered(graph, child, leaves) for child in structure.children))


def export(
    net: Cell,
    *inputs: object,
    file_name: str | os.PathLike[str],
    file_format: str = "MINDIR",
    capture_mode: str = "ast",
) -> None:
    """Write the network to the file as a graph, with its weights.

    Args:
        net: What is captured, as it is now: in training or in evaluation mode.
        inputs: What it is called with: tensors, of which only shape and dtype count, or `Spec`s, whose lengths may be
            symbolic (`Dim`); nested in tuples, lists, dicts.
        file_name: ".mindir" is added if it has no ending.
        file_format: "MINDIR", or "ONNX" where the extra `onnx` is installed.
        capture_mode: As for `jit`.

    Raises:
        MindIRError: The network uses what a file cannot hold: hooks, optimizers, Python functions.
        CaptureError: It cannot be captured.
        ValueError: An unknown format.
    """
    formats = ("MINDIR", "ONNX")
    if file_format not in formats:
        raise ValueError(f"file_format expects {' or '.join(formats)}, got {file_format!r}")
    path = os.fspath(file_name)
    if not os.path.splitext(path)[1]:
        path += f".{file_format.lower()}"
    if file_format == "ONNX":
        import_module(".onnx", __package__).export(net, *inputs, path=path)
        return
    save(graph_of(net, inputs, capture_mode=capture_mode), path)


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

    def construct(self, *inputs: Tensor) -> object:
        """Return what the graph returns: a tensor, or tuples of them.

        Raises:
            ShapeError: The inputs are not those that the graph was captured for.
        """
        self._lengths(inputs)
        return self._compiled(*inputs)

    def _lengths(self, inputs: tuple[Tensor, ...]) -> dict[str, int]:
        """Return what the symbolic lengths are for these inputs."""
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

    def _inlined(self, *inputs: Tensor) -> object:
        """Return the graph's body, written into the graph that is being captured."""
        capture = CAPTURE.get()
        if not isinstance(capture, GraphCapture):
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
    """Make the parameter part of the cell under a dotted name."""
    *parents, last = name.split(".")
    cell = root
    for part in parents:
        below = cell.name_cells().get(part)
        if below is None:
            below = Cell()
            cell.insert_child_to_cell(part, below)
        cell = below
    setattr(cell, last, parameter)
