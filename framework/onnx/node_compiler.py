"""Compiles the nodes of a model to steps; operators that the standard defines by others are expanded.

Some definitions depend on the types of the inputs (how many axes, which element type); those are looked up when the
inputs are there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, TypeProto, defs, helper

from ..tensor import Tensor
from .graph_program import Library, NodeStep, OnnxProgram
from .onnx_errors import UnknownOperator
from .onnx_values import code_of, from_onnx
from .operator_call import Body, Implementation, OperatorCall, Value, array_of, find, nearest

__all__ = ["Expansion", "compile_graph", "expansion_of"]


class Expansion:
    """The definition of the operator of one node.

    Args:
        node: The `onnx.NodeProto`.
        schema: The `onnx.defs.OpSchema` of its operator.
        version: The opset version in force.
    """

    def __init__(self, node: NodeProto, schema: defs.OpSchema, version: int) -> None:
        self.node, self.schema, self.version = node, schema, version

    def defaults(self) -> dict[str, AttributeProto]:
        """Return the attributes that have a value where the node gives none, as `onnx.AttributeProto`s."""
        known = {name: attribute.default_value for name, attribute in self.schema.attributes.items()}
        return {name: value for name, value in known.items() if value.type}

    def function(self, inputs: Sequence[Value]) -> tuple[tuple[bytes, ...] | None, FunctionProto]:
        """Return a key under which the definition can be kept, and the definition as an `onnx.FunctionProto`."""
        if self.schema.has_function:
            return None, self.schema.function_body
        types = [_type_of(value) for value in inputs]
        encoded = self.schema.get_context_dependent_function(self.node.SerializeToString(), types)
        function = FunctionProto()
        function.ParseFromString(encoded)
        return tuple(types), function


def _type_of(value: Value) -> bytes:
    """Return the type of a value as an encoded `onnx.TypeProto`; an empty one for a missing value."""
    if value is None:
        kind = TypeProto()
    elif isinstance(value, list):
        first = value[0] if value else None
        inside = (
            helper.make_tensor_type_proto(code_of(first.dtype), None)
            if isinstance(first, Tensor | np.ndarray)
            else TypeProto()
        )
        kind = helper.make_sequence_type_proto(inside)
    else:
        shape = tuple(value.shape) if isinstance(value, Tensor) else value.shape
        kind = helper.make_tensor_type_proto(code_of(value.dtype), shape)
    encoded: bytes = kind.SerializeToString()
    return encoded


def expansion_of(node: NodeProto, version: int, opsets: Mapping[str, int]) -> Expansion | None:
    """Return how the standard defines the node's operator, or None where it is not defined by others (or not known)."""
    try:
        schema = defs.get_schema(node.op_type, min(version, opsets.get(node.domain, 1 << 20)), node.domain)
    except defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    return Expansion(node, schema, version)


def compile_graph(graph: GraphProto, library: Library, bindings: Mapping[str, object] | None = None) -> OnnxProgram:
    """Return the program of an `onnx.GraphProto`; `bindings` are the attributes of the function it belongs to."""
    constants: dict[str, Value] = {tensor.name: from_onnx(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        constants[sparse.values.name] = dense(sparse)
    steps = [compile_node(node, library, bindings or {}) for node in graph.node]
    inputs = [info.name for info in graph.input if info.name not in constants]
    return OnnxProgram(steps, inputs, [info.name for info in graph.output], constants)


def compile_function(function: FunctionProto, library: Library, attributes: Mapping[str, object]) -> OnnxProgram:
    """Return the program of an `onnx.FunctionProto` called with these attributes."""
    bindings = {a.name: _attribute(a, library, {}) for a in function.attribute_proto}
    bindings.update(attributes)
    opsets = {**library.opsets, **{_domain(entry.domain): entry.version for entry in function.opset_import}}
    inside = Library(opsets, library.functions)
    steps = [compile_node(node, inside, bindings) for node in function.node]
    return OnnxProgram(steps, list(function.input), list(function.output), {}, optional=list(function.output))


def compile_node(node: NodeProto, library: Library, bindings: Mapping[str, object]) -> NodeStep:
    """Return the step of an `onnx.NodeProto`.

    Raises:
        UnknownOperator: There is no such operator here, and its definition says nothing that could be run instead.
    """
    domain, version = _domain(node.domain), library.version(_domain(node.domain))
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in bindings:
                attributes[attribute.name] = bindings[attribute.ref_attr_name]
        else:
            attributes[attribute.name] = _attribute(attribute, library, bindings)
    name = node.name or next((out for out in node.output if out), "")
    call = (name, node.op_type, domain, version, tuple(node.output), attributes)
    bodies = tuple(value.__self__ for value in attributes.values() if callable(value))
    return NodeStep(call, _implementation(node, name, library, attributes), tuple(node.input), bodies)


def _implementation(node: NodeProto, name: str, library: Library, attributes: Mapping[str, object]) -> Implementation:
    domain = _domain(node.domain)
    own = library.functions.get((domain, node.op_type))
    if own is not None:
        program = compile_function(own, library, attributes)
        return lambda call, *inputs: program.run({}, _filled(inputs, len(program.inputs)))
    found = find(domain, node.op_type, library.version(domain))
    if found is not None:
        return found
    expansion = expansion_of(node, library.version(domain), library.opsets)
    if expansion is None:
        raise UnknownOperator(
            f"node '{name}' asks for operator {node.op_type} of domain '{domain or 'ai.onnx'}' in version "
            f"{library.opsets.get(domain, 'unknown')}, which we do not have{nearest(domain, node.op_type)}; "
            f"register one with mindscope.framework.onnx.operator({node.op_type!r}, domain={domain!r})"
        )
    return _expanding(expansion, library, attributes)


def _expanding(expansion: Expansion, library: Library, attributes: Mapping[str, object]) -> Implementation:
    """Run the definition that the ONNX standard gives of an operator in terms of others."""
    programs: dict[tuple[bytes, ...] | None, OnnxProgram] = {}
    whole = {**{name: _attribute(a, library, {}) for name, a in expansion.defaults().items()}, **attributes}

    def run(call: OperatorCall, *inputs: Value) -> tuple[Value, ...]:
        key, function = expansion.function(inputs)
        if key not in programs:
            programs[key] = compile_function(function, library, whole)
        return programs[key].run({}, _filled(inputs, len(programs[key].inputs)))

    return run


def _filled(inputs: Sequence[Value], count: int) -> list[Value]:
    return [*inputs, *(None,) * (count - len(inputs))]


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _attribute(attribute: AttributeProto, library: Library, bindings: Mapping[str, object]) -> object:
    """Return the value of an `onnx.AttributeProto`; a subgraph as something to call."""
    kind = AttributeProto
    if attribute.type == kind.GRAPH:
        return _body(attribute.g, library, bindings)
    if attribute.type == kind.GRAPHS:
        return tuple(_body(graph, library, bindings) for graph in attribute.graphs)
    if attribute.type == kind.TENSOR:
        return from_onnx(attribute.t)
    if attribute.type == kind.SPARSE_TENSOR:
        return dense(attribute.sparse_tensor)
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if attribute.type in (kind.INTS, kind.FLOATS):
        return tuple(value)
    if attribute.type == kind.STRINGS:
        return tuple(word.decode(errors="surrogateescape") for word in value)
    return value


def _body(graph: GraphProto, library: Library, bindings: Mapping[str, object]) -> Body:
    return compile_graph(graph, library, bindings).run


def dense(sparse: SparseTensorProto) -> Value:
    """Return the dense tensor of a sparse one."""
    values, places = from_onnx(sparse.values), from_onnx(sparse.indices)
    result = np.zeros(tuple(sparse.dims), values.dtype)
    index, numbers = array_of(places), array_of(values)
    if index.ndim == 1:
        result.reshape(-1)[index] = numbers
    else:
        result[tuple(index.T)] = numbers
    return Tensor(result)
