"""A network as a graph: captured for inputs of which only the types count."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .. import compiler
from ..compiler.captured import Captured
from ..compiler.compiled import CAPTURE_MODES
from ..compiler.signature import Signature, Structure, flatten
from ..ir import Graph, Node
from ..ir.control import depend, make_tuple
from ..ir.files import MindIRError
from ..ir.node import Apply
from ..shape import Spec
from ..tensor import Tensor

__all__ = ["graph_of"]


def graph_of(net: Any, inputs: Sequence[Any], *, capture_mode: str = "ast") -> Graph:
    """The graph of a cell or function for inputs of these types; it returns what that returns, lists as tuples."""
    leaves: list[Any] = []
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


def _leaf(value: Any) -> Any:
    if isinstance(value, Spec):
        return _Input(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_leaf(part) for part in value)
    return {key: _leaf(part) for key, part in value.items()} if isinstance(value, dict) else value


def _nested(captured: Captured) -> Graph:
    """The graph, returning a tensor or nested tuples where the capture returns one flat tuple."""
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


def _gathered(graph: Graph, structure: Structure, leaves: Any) -> Node:
    if structure.kind == "leaf":
        return next(leaves)  # type: ignore[no-any-return] # an iterator over nodes
    if structure.kind == "static":
        raise MindIRError(
            f"'{graph.name}' returns {structure.keys.value!r}, which is no tensor; return tensors, in tuples if several"
        )
    return graph.apply(make_tuple, *(_gathered(graph, child, leaves) for child in structure.children))
