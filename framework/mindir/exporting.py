"""A network written to a file, as MindIR or ONNX."""

import os
from importlib import import_module
from typing import Any

from ..ir.files import save
from ..nn.cell import Cell
from .graph import graph_of

__all__ = ["export"]


def export(
    net: Cell,
    *inputs: Any,
    file_name: str | os.PathLike[str],
    file_format: str = "MINDIR",
    capture_mode: str = "ast",
) -> None:
    """Nothing; afterwards the file holds the network as a graph, with its weights.

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
        import_module("..onnx", __package__).export(net, *inputs, path=path)
        return
    save(graph_of(net, inputs, capture_mode=capture_mode), path)
