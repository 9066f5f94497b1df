"""Capture by example: Python runs the function once, on traced tensors; what it does to them is the graph."""

from collections.abc import Callable
from typing import Any

from ..context import quiet
from ..ir import Graph
from .capture import GraphCapture
from .signature import Signature
from .traced import TracedTensor

__all__ = ["trace"]


def trace(fn: Callable[..., Any], signature: Signature) -> tuple[Graph, Any]:
    """The graph of a function for arguments of this signature, and the structure of what it returns."""
    capture = GraphCapture(getattr(fn, "__name__", type(fn).__name__))
    traced = [TracedTensor(capture.root.add_parameter(spec, f"x{i}")) for i, spec in enumerate(signature.specs)]
    arguments, options = signature.fill(traced)
    with capture.active(), quiet():
        output = fn(*arguments, **options)
        leaves, structure = signature.flatten_output(output)
        graph = capture.finish(tuple(leaves))
    return graph, structure
