"""What can go wrong with ONNX models.

OnnxError (EngineError)
    BrokenModel (ValueError)            bytes that are no model, or a model that breaks the rules of the format
    UnknownOperator (NotImplementedError)  an operator that we neither have nor can expand
    UnsupportedFeature (NotImplementedError)  a known operator asked for something that we do not do
    ExportError (ValueError)            a cell that cannot become a model
"""

from ..errors import EngineError

__all__ = ["BrokenModel", "ExportError", "OnnxError", "UnknownOperator", "UnsupportedFeature"]


class OnnxError(EngineError):
    """What every exception about ONNX models derives from."""


class BrokenModel(OnnxError, ValueError):
    """Bytes that are no ONNX model, or a model that breaks the rules of the format."""


class UnknownOperator(OnnxError, NotImplementedError):
    """An operator that the importer has no implementation for, and whose definition it cannot expand."""


class UnsupportedFeature(OnnxError, NotImplementedError):
    """Something that a known operator is asked for and that the importer does not do."""


class ExportError(OnnxError, ValueError):
    """A cell that cannot be written as an ONNX model."""
