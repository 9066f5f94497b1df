"""Capture by example: Python runs the function once, on traced tensors; what it does to them is the graph."""

from collections.abc import Callable
from typing import Any

from ..context import quiet
from ..ir import OpaqueType
from .capture import GraphCapture
from .captured import Captured
from .outside import Outside
from .signature import Signature
from .traced import TracedKey, TracedTensor

__all__ = ["trace"]


def trace(fn: Callable[..., Any], signature: Signature) -> Captured:
    """The graph of a function for arguments of this signature.

    Globals and closures of the function, and of the functions of its module that it names, are guarded where they are
    simple values, and so are the attributes of the cells that it calls. Attributes of other objects are not seen.

    Raises:
        CaptureError: Values of a tensor are needed, or Python's state changed.
    """
    capture = GraphCapture(getattr(fn, "__name__", type(fn).__name__))
    outside = Outside(fn)
    arguments, options = signature.fill(traced_arguments(capture, signature))
    with capture.active(), quiet():
        output = fn(*arguments, **options)
        outside.check()
        capture.guards += outside.guards
        return capture.complete(output)


def traced_arguments(capture: GraphCapture, signature: Signature) -> list[Any]:
    """What stands for the tensors and keys of the arguments: new parameters of the outermost graph."""
    traced: list[Any] = []
    for number, (type, needs) in enumerate(zip(signature.specs, signature.needs, strict=True)):
        node = capture.root.add_parameter(type, f"x{number}")
        if isinstance(type, OpaqueType):
            traced.append(TracedKey(node))
            continue
        tensor = TracedTensor(node)
        tensor.requires_grad = needs
        traced.append(tensor)
    return traced
