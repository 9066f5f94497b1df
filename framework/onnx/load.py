"""Reading a model: from a file, bytes or a ModelProto to a cell."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import onnx

from .cell import OnnxCell
from .errors import BrokenModel

__all__ = ["load"]


def load(model: "str | PathLike[str] | bytes | Any") -> OnnxCell:
    """The model as a cell.

    Args:
        model: Path of a file (tensors stored beside it are read too), the bytes of one, or an `onnx.ModelProto`.

    Raises:
        FileNotFoundError: There is no such file.
        BrokenModel: It is no ONNX model, or one that breaks the rules of the format.
        UnknownOperator: It uses an operator that the importer does not have.

    Example:
        >>> net = load("resnet18.onnx")  # doctest: +SKIP
        >>> logits = net(images)  # doctest: +SKIP
    """
    return OnnxCell(_checked(_read(model), model))


def _read(model: Any) -> Any:
    if isinstance(model, onnx.ModelProto):
        return model
    is_encoded = isinstance(model, bytes | bytearray | memoryview)
    if not is_encoded and not Path(fspath(model)).exists():
        raise FileNotFoundError(f"no ONNX file at '{fspath(model)}'")
    try:
        return onnx.load_model_from_string(bytes(model)) if is_encoded else onnx.load(Path(fspath(model)))
    except Exception as error:
        raise BrokenModel(
            f"{_name(model)} cannot be read as an ONNX model ({type(error).__name__}: {error}); "
            f"it may be truncated or of another format: export it again"
        ) from error


def _checked(proto: Any, source: Any) -> Any:
    if not proto.HasField("graph") or not proto.opset_import:
        raise BrokenModel(f"{_name(source)} holds no graph or names no opset; it is empty, truncated or no ONNX model")
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        if "No Op registered" in str(error):
            return proto  # the importer says which node, and what to do
        raise BrokenModel(f"{_name(source)} breaks the rules of ONNX: {str(error).strip()}") from error
    return proto


def _name(source: Any) -> str:
    if isinstance(source, bytes | bytearray | memoryview):
        return f"the model of {len(source)} bytes"
    return f"'{fspath(source)}'" if isinstance(source, str | PathLike) else "the model"
