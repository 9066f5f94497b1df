"""ONNX: models read as cells, cells written as models; needs the extra `onnx`."""

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ImportError("ONNX models need the package 'onnx'; install the extra: pip install 'mindscope[onnx]'")

from . import operators
from .exporting import export, writer
from .onnx_cell import OnnxCell, load
from .onnx_errors import BrokenModel, ExportError, OnnxError, UnknownOperator, UnsupportedFeature
from .operator_call import operator

__all__ = [
    "BrokenModel",
    "ExportError",
    "OnnxCell",
    "OnnxError",
    "UnknownOperator",
    "UnsupportedFeature",
    "export",
    "load",
    "operator",
    "writer",
]
