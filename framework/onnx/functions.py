"""Operators that the ONNX standard defines in terms of others: their definitions, to be run in their place.

Some definitions depend on the types of the inputs (how many axes, which element type); those are asked for when the
inputs are there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import FunctionProto, TypeProto, defs, helper

from ..tensor import Tensor
from .call import Value
from .values import code_of

__all__ = ["Expansion", "expansion_of"]


class Expansion:
    """The definition of the operator of one node.

    Args:
        node: The `onnx.NodeProto`.
        schema: The `onnx.defs.OpSchema` of its operator.
        version: The opset version in force.
    """

    def __init__(self, node: Any, schema: Any, version: int) -> None:
        self.node, self.schema, self.version = node, schema, version

    def defaults(self) -> dict[str, Any]:
        """The attributes that have a value where the node gives none, as `onnx.AttributeProto`s."""
        known = {name: attribute.default_value for name, attribute in self.schema.attributes.items()}
        return {name: value for name, value in known.items() if value.type}

    def function(self, inputs: Sequence[Value]) -> tuple[Any, Any]:
        """A key under which the definition can be kept, and the definition as an `onnx.FunctionProto`."""
        if self.schema.has_function:
            return None, self.schema.function_body
        types = [_type_of(value) for value in inputs]
        encoded = self.schema.get_context_dependent_function(self.node.SerializeToString(), types)
        function = FunctionProto()
        function.ParseFromString(encoded)
        return tuple(types), function


def _type_of(value: Value) -> bytes:
    """The type of a value as an encoded `onnx.TypeProto`; an empty one for a missing value."""
    if value is None:
        kind = TypeProto()
    elif isinstance(value, list):
        inside = helper.make_tensor_type_proto(code_of(value[0].dtype), None) if value else TypeProto()
        kind = helper.make_sequence_type_proto(inside)
    else:
        shape = tuple(value.shape) if isinstance(value, Tensor) else value.shape
        kind = helper.make_tensor_type_proto(code_of(value.dtype), shape)
    encoded: bytes = kind.SerializeToString()
    return encoded


def expansion_of(node: Any, version: int, opsets: Mapping[str, int]) -> Expansion | None:
    """How the standard defines the node's operator, or None where it is not defined by others (or not known)."""
    try:
        schema = defs.get_schema(node.op_type, min(version, opsets.get(node.domain, 1 << 20)), node.domain)
    except defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    return Expansion(node, schema, version)
