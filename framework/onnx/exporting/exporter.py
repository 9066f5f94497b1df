"""Exports a cell to ONNX: captures it by example and writes every node of its graph; axes may be open.

The outputs of a primitive with several are a tuple of names; a name is missing where ONNX has no such output (the
places of a max pool), and a node that uses it is refused. Lengths of open axes are names in the model's inputs,
calculated from their shapes where they are needed.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...compiler.capture import trace
from ...compiler.signature import Signature
from ...errors import EngineError
from ...ir import Apply, ConstantNode, Graph, Node, ParameterNode
from ...ir.visit import order
from ...nn import Cell
from ...specs import Shape, Spec
from ...symbolic import Dim
from ...tensor import Tensor
from ..onnx_errors import ExportError
from ..onnx_values import code_of
from . import elementwise_writers as _elementwise
from . import network_writers as _network
from . import shape_writers as _shape
from .model_builder import WRITERS, Builder, Lengths, partner_dtype, spec_of_node

__all__ = ["Axes", "Lengths", "as_declared", "export", "opened"]

#: By input (position or name): axis to the name of its length.
Axes = Mapping[int | str, Mapping[int, str]]


def opened(signature: Signature, axes: Axes | None, names: Sequence[str]) -> Signature:
    """Return the signature with the lengths of these axes replaced by their names.

    Raises:
        ExportError: There is no such input or axis.
    """
    specs: list[Any] = list(signature.specs)
    for key, chosen in (axes or {}).items():
        if key not in names and key not in range(len(specs)):
            raise ExportError(f"dynamic_axes names input {key!r}; the inputs are {', '.join(names)}")
        place = names.index(key) if isinstance(key, str) else key
        shape = list(specs[place].shape)
        for axis, name in chosen.items():
            if not -len(shape) <= axis < len(shape):
                raise ExportError(f"dynamic_axes names axis {axis} of '{names[place]}', whose shape is {tuple(shape)}")
            shape[axis] = Dim(name)
        specs[place] = Spec(tuple(shape), specs[place].dtype)
    return Signature(signature.structure, tuple(specs), signature.needs)


def as_declared(shape: Shape) -> list[int | str]:
    """Return the shape as a model declares it: numbers, and words for open lengths."""
    return [int(length) if isinstance(length, int | np.integer) else str(length) for length in shape]


_FAMILIES = (_elementwise, _network, _shape)
_OLDEST, _NEWEST = 18, 23

#: Versions of the file format that the opsets came with; run times refuse files that are newer than they.
_IR_VERSION = 10


def export(
    cell: Cell | Callable[..., object],
    *inputs: object,
    path: "str | PathLike[str] | None" = None,
    opset: int = 20,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
) -> onnx.ModelProto:
    """Return the cell as an `onnx.ModelProto`, checked, and written to `path` where one is given.

    The cell is run once on the examples, which say which shapes the model takes; branches of Python are taken as the
    examples take them. Parameters are stored under their names.

    Args:
        cell: A cell (in evaluation mode, unless its training is to be written) or a function of tensors.
        inputs: Examples, tensors or arrays.
        path: Where to write the file.
        opset: Version of ai.onnx, from 18 to 23.
        input_names: Names of the inputs; `x0`, `x1`, ... by default.
        output_names: Names of the outputs; `y0`, `y1`, ... by default.
        dynamic_axes: Axes whose length stays open, and what it is called: `{"x0": {0: "batch"}}`.

    Raises:
        ExportError: Something in the cell cannot be written; the message has the primitive, the site and the line.

    Example:
        >>> model = export(net, example, path="net.onnx")  # doctest: +SKIP
    """
    if not _OLDEST <= opset <= _NEWEST:
        raise ExportError(f"export writes opset {_OLDEST} to {_NEWEST}, got {opset}")
    tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    names = _names(input_names, len(tensors), "x")
    captured = trace(cell, opened(Signature.of(tuple(tensors), {})[0], dynamic_axes, names))
    if captured.keys:
        raise ExportError("the cell draws random numbers; call set_train(False) before it is exported")
    writing = _Writing(captured.graph, Builder(opset), names, output_names)
    model = writing.model(getattr(cell, "__name__", type(cell).__name__))
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"ONNX does not allow what was written, in opset {opset}: {str(error).strip()}") from error
    if path is not None:
        onnx.save(model, fspath(path))
    return model


class _Writing:
    """One export: the names of the values written so far."""

    def __init__(
        self, graph: Graph, builder: Builder, input_names: Sequence[str], output_names: Sequence[str] | None
    ) -> None:
        self.graph, self.builder = graph, builder
        self.names: dict[Node, object] = {}
        given = [x for x in graph.parameters if x.weight is None]
        self.inputs = [builder.fresh(name) for name in input_names]
        shapes = [spec_of_node(x).shape for x in given]
        builder.lengths = Lengths(builder, list(zip(self.inputs, shapes, strict=True)))
        self.names.update(zip(given, self.inputs, strict=True))
        self.given = given
        self.output_names = output_names
        for number, parameter in enumerate(x for x in graph.parameters if x.weight is not None):
            self._store_weight(parameter, number)

    def _store_weight(self, parameter: ParameterNode, number: int) -> None:
        weight = parameter.weight
        assert weight is not None
        self.names[parameter] = self.builder.store(weight.numpy(), str(weight.name) or f"weight{number}")

    def model(self, title: str) -> onnx.ModelProto:
        """Return the whole model."""
        for node in order(self.graph):
            self.names[node] = self._written(node)
        results = self._outputs()
        outputs = [self.builder.fresh(name) for name in _names(self.output_names, len(results), "y")]
        for (name, _), output in zip(results, outputs, strict=True):
            self.builder.nodes.append(helper.make_node("Identity", [name], [output], name=output))
        graph = helper.make_graph(
            self.builder.nodes,
            title,
            [_info(name, node) for name, node in zip(self.inputs, self.given, strict=True)],
            [_info(output, node) for (_, node), output in zip(results, outputs, strict=True)],
            self.builder.stored,
        )
        opsets = [helper.make_opsetid("", self.builder.opset)]
        return helper.make_model(graph, producer_name="mindscope", opset_imports=opsets, ir_version=_IR_VERSION)

    def _outputs(self) -> list[tuple[str, Node]]:
        """Return names and nodes of what the graph returns: one flat tuple."""
        whole = self.graph.result
        while isinstance(whole, Apply) and whole.applies("depend"):
            whole = whole.arguments[0]
        if not isinstance(whole, Apply) or not whole.applies("make_tuple"):
            raise ExportError(f"the captured function returns {whole!r}, which is no tuple of tensors")
        return [(self._name(part, None), part) for part in whole.arguments]

    def _name(self, node: Node, user: Apply | None) -> str:
        """Return the name of a value, which is stored now if it is a constant."""
        if isinstance(node, ConstantNode):
            return self._constant(node, user)
        name = self.names[node]
        if not isinstance(name, str):
            raise ExportError(f"{_place(node)} gives something that ONNX does not, and it is used")
        return name

    def _constant(self, node: ConstantNode, user: Apply | None) -> str:
        value = node.value
        if isinstance(value, Tensor):
            return self.builder.store(value.numpy())
        if isinstance(value, np.ndarray):
            return self.builder.store(value)
        if not isinstance(value, bool | int | float | np.generic):
            raise ExportError(f"a constant of type {type(value).__name__} cannot be written")
        dtype = spec_of_node(node).dtype if user is None else partner_dtype(user)
        return self.builder.number(value, dtype)

    def _written(self, node: Apply) -> object:
        """Return the name, or the names, of what a node gives."""
        if node.applies("make_tuple"):
            return tuple(self.names.get(x) if not isinstance(x, ConstantNode) else x for x in node.arguments)
        if node.applies("tuple_getitem"):
            return self._part(node)
        if node.applies("depend"):
            return self.names.get(node.arguments[0])
        function = node.function
        name = getattr(function.value, "name", "") if isinstance(function, ConstantNode) else ""
        write = WRITERS.get(name)
        if write is None:
            raise ExportError(
                f"{_place(node)} cannot be written as ONNX: there is no writer for '{name or function!r}'; compose it "
                f"of other operations, or register one with mindscope.framework.onnx.writer({name!r})"
            )
        self.builder.where = str(node.where)
        try:
            _check_types(node)
            return write(self.builder, node, *(self._name(x, node) for x in node.arguments))
        except EngineError as error:
            raise ExportError(f"{_place(node)}: {error}") from error

    def _part(self, node: Apply) -> object:
        whole, index = self.names[node.arguments[0]], node.attributes["index"]
        if not isinstance(whole, tuple) or index >= len(whole):
            return None
        part = whole[index]
        return self._constant(part, None) if isinstance(part, ConstantNode) else part


def _names(names: Sequence[str] | None, count: int, letter: str) -> list[str]:
    if names is not None and len(names) != count:
        raise ExportError(f"there are {count} values to be named, got {len(names)} names: {', '.join(names)}")
    return list(names or [f"{letter}{i}" for i in range(count)])


def _check_types(node: Apply) -> None:
    """Refuse complex arguments and results, which ONNX can store but not compute with."""
    for value in (node, *node.arguments):
        if isinstance(value.type, Spec) and value.type.dtype.kind == "c":
            raise ExportError("ONNX does not compute with complex numbers; use real and imaginary parts")


def _place(node: Node) -> str:
    function = node.inputs[0] if isinstance(node, Apply) else None
    name = getattr(function.value, "name", "a function") if isinstance(function, ConstantNode) else type(node).__name__
    where = str(node.where)
    return f"'{name}'{f' at {where}' if where else ''}"


def _info(name: str, node: Node) -> onnx.ValueInfoProto:
    spec = spec_of_node(node)
    return helper.make_tensor_value_info(name, code_of(spec.dtype), as_declared(spec.shape))
