"""Values in and out of a model: ONNX's tensors to ours and back.

Numbers of every type, the 8- and 4-bit ones of ml_dtypes too, are held by tensors; strings by arrays of objects.
"""

from typing import TypeAlias

import numpy as np
from onnx import TensorProto, TypeProto, helper, numpy_helper

from ..dtype import Dtype
from ..errors import ShapeError
from ..tensor import Array, Tensor, wrap
from .onnx_errors import BrokenModel
from .operator_call import Elements, Value

__all__ = ["check_input", "dtype_of", "from_onnx", "incoming", "outgoing"]


#: What a caller gets: arrays, lists of them (sequences), None for an empty optional.
Outgoing: TypeAlias = Array | list["Outgoing"] | None


def dtype_of(code: int) -> Dtype:
    """Return the NumPy (or ml_dtypes) type with that number in `TensorProto.DataType`."""
    try:
        found: Dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code))
    except KeyError as error:
        raise BrokenModel(f"no element type has the number {code}; see TensorProto.DataType") from error
    return found


def code_of(dtype: Dtype) -> int:
    """Return the number of a NumPy type in `TensorProto.DataType`."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def from_onnx(tensor: TensorProto) -> Elements:
    """Return the value of a tensor stored in a model."""
    try:
        return _of_array(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise BrokenModel(f"the stored tensor '{tensor.name}' cannot be read: {error}") from error


def incoming(value: object) -> Value:  # what a caller hands over
    """Return a value given from outside: arrays become tensors, those of strings stay arrays, lists are sequences."""
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, list | tuple):
        return [incoming(part) for part in value]
    return _of_array(np.asarray(value))


def _of_array(array: Array) -> Elements:
    if array.dtype.kind in "OSU":
        return array.astype(object)
    return wrap(array)


def outgoing(value: Value) -> Outgoing:
    """Return the value as arrays, lists of arrays, or None."""
    if isinstance(value, list):
        return [outgoing(part) for part in value]
    return value.numpy() if isinstance(value, Tensor) else value


def check_input(name: str, value: Value, declared: TypeProto) -> None:
    """Check that the value has the declared element type and shape.

    Raises:
        ShapeError: It does not; the message says what the model declares.
    """
    if not declared.HasField("tensor_type") or not isinstance(value, Tensor | np.ndarray):
        return
    kind = declared.tensor_type
    wanted = dtype_of(kind.elem_type) if kind.elem_type else value.dtype
    if value.dtype != wanted:
        raise ShapeError(f"input '{name}' of the model is declared {wanted}, got {value.dtype}; cast it first")
    if not kind.HasField("shape"):
        return
    lengths = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
    fits = len(lengths) == value.ndim and all(
        expected is None or expected == length for expected, length in zip(lengths, value.shape, strict=True)
    )
    if not fits:
        shown = tuple("?" if length is None else length for length in lengths)
        raise ShapeError(f"input '{name}' of the model is declared with shape {shown}, got {tuple(value.shape)}")


def as_strings(values: Array) -> Array:
    """Return an array of objects that are all `str`."""
    decode = np.frompyfunc(lambda word: word.decode() if isinstance(word, bytes) else str(word), 1, 1)
    return np.asarray(decode(values), object).reshape(values.shape)
