"""Reads an ONNX model and makes it a cell: its weights are parameters, a call runs its graph."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import onnx

from ..dtype import is_floating
from ..errors import ShapeError
from ..nn import Cell
from ..tensor import Parameter, Tensor
from .graph_program import Library, NodeStep, OnnxProgram
from .node_compiler import compile_graph
from .onnx_errors import BrokenModel
from .onnx_values import check_input, incoming
from .operator_call import OperatorCall, Value

__all__ = ["OnnxCell", "load"]

#: Inputs that are statistics and not weights: no gradient is asked of them.
_FROZEN = {"BatchNormalization": (3, 4)}


#: A model: the path of its file, the bytes of one, or the model itself.
Source: TypeAlias = str | PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto


class _NodeGroup(Cell):
    """Parameters, or nodes, whose names share a prefix; it is never called itself."""


class OnnxNode(Cell):
    """One node of a model: a site that hooks and monitors see like any layer.

    Args:
        step: What the node does.
    """

    def __init__(self, step: NodeStep) -> None:
        super().__init__()
        self._step = step

    def construct(self, *inputs: Value) -> Value | tuple[Value, ...]:
        """Return the output, or a tuple of the outputs; a missing input is None."""
        results = self._step.run(OperatorCall(*self._step.call), inputs)
        return results[0] if len(results) == 1 else results

    def run(self, call: OperatorCall, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """Return the outputs, as the program wants them."""
        found = self(*inputs)
        return found if isinstance(found, tuple) else (found,)

    def describe(self) -> str:
        """Name its operator."""
        return self._step.call[1]


class OnnxCell(Cell):
    """A model that was read from ONNX.

    Every node of the graph is a cell below `nodes`, under its own name, so that hooks and the monitor see what flows
    between them; nodes with subgraphs (If, Loop, Scan) run as a whole and have no cell.

    Stored floating-point tensors are parameters under their own names (dots make cells below this one), so that the
    model can be trained, checkpointed and watched like any other; stored integers, words and truth values belong to
    the structure and are constants.

    Attributes:
        name: The graph's name.
        opsets: Version of each imported domain.
        input_names: What `construct` takes, in order.
        output_names: What it returns.
    """

    def __init__(self, model: onnx.ModelProto) -> None:  # checked
        super().__init__()
        self.name: str = model.graph.name
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
        self._program: OnnxProgram = compile_graph(model.graph, Library(self.opsets, functions))
        self._declared = {info.name: info.type for info in model.graph.input}
        self.input_names, self.output_names = self._program.inputs, self._program.outputs
        self._adopt(_frozen_names(model.graph))
        self.nodes = _NodeGroup()
        self._show_nodes()

    def _adopt(self, frozen: set[str]) -> None:
        """Make the stored floating-point tensors parameters of this cell and of the cells below."""
        constants = self._program.constants
        for name, value in constants.items():
            if not isinstance(value, Tensor) or not is_floating(value.dtype):
                continue
            parameter = Parameter(value.numpy().copy(), requires_grad=name not in frozen)
            constants[name] = parameter
            _place(self, name, parameter)

    def _show_nodes(self) -> None:
        """Let a cell of its own run every step of the program that has no subgraph."""
        for number, step in enumerate(self._program.steps):
            if step.bodies:
                continue
            node, name = OnnxNode(step), (step.call[0] or f"node{number}").replace(".", "/")
            if name in self.nodes.name_cells():
                name = f"{name}#{number}"
            self.nodes._insert(name, node)  # not as an attribute: a node may be called "construct"
            self._program.runners[number] = node.run

    def construct(self, *inputs: object) -> Value | tuple[Value, ...]:
        """Return the output, or a tuple of the outputs in the order of `output_names`.

        Args:
            inputs: Tensors or arrays, one for each of `input_names`; lists for sequences, None for an empty optional.

        Raises:
            ShapeError: Their number, an element type or a shape differs from what the model declares.
        """
        names = self.input_names
        if len(inputs) != len(names):
            raise ShapeError(f"model '{self.name}' expects {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        values = [incoming(value) for value in inputs]
        for name, value in zip(names, values, strict=True):
            check_input(name, value, self._declared[name])
        outputs = self._program.run({}, values)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, **inputs: object) -> dict[str, Value]:
        """Return the outputs by name, from inputs by name."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing or len(inputs) != len(self.input_names):
            raise ShapeError(
                f"model '{self.name}' expects inputs {', '.join(self.input_names)}, got {', '.join(inputs)}"
            )
        found = self(*(inputs[name] for name in self.input_names))
        outputs = found if len(self.output_names) > 1 else (found,)
        return dict(zip(self.output_names, outputs, strict=True))

    def describe(self) -> str:
        """List its name, inputs and outputs."""
        return f"{self.name!r}, inputs={list(self.input_names)}, outputs={list(self.output_names)}"


def _frozen_names(graph: onnx.GraphProto) -> set[str]:
    places: Mapping[str, tuple[int, ...]] = _FROZEN
    return {
        node.input[place] for node in graph.node for place in places.get(node.op_type, ()) if place < len(node.input)
    }


def _place(root: Cell, name: str, parameter: Parameter) -> None:
    """Put the parameter under its dotted name, one cell a dot; under one name where that cannot be."""
    *folders, last = name.split(".")
    cell = root
    for folder in folders:
        below = cell._cells.get(folder)
        if not folder or folder in cell._parameters:
            break
        if below is None:
            below = _NodeGroup()
            cell._insert(folder, below)
        cell = below
    else:
        if last and last not in cell._cells and last not in cell._parameters:
            cell._insert(last, parameter)
            parameter.name = name
            return
    root._insert(name.replace(".", "/"), parameter)


def load(model: Source) -> OnnxCell:
    """Return the model as a cell.

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


def _read(model: Any) -> onnx.ModelProto:
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


def _checked(proto: onnx.ModelProto, source: Source) -> onnx.ModelProto:
    """Return the model, if it keeps the rules of the format."""
    if not proto.HasField("graph") or not proto.opset_import:
        raise BrokenModel(f"{_name(source)} holds no graph or names no opset; it is empty, truncated or no ONNX model")
    imports = [*proto.opset_import, *(entry for function in proto.functions for entry in function.opset_import)]
    for entry in imports:
        if not 0 < entry.version < 2**31:
            raise BrokenModel(
                f"{_name(source)} names version {entry.version} of the opset '{entry.domain[:80] or 'ai.onnx'}', which "
                f"cannot be; it is damaged: export it again"
            )
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        if "No Op registered" in str(error):
            return proto  # the importer says which node, and what to do
        raise BrokenModel(f"{_name(source)} breaks the rules of ONNX: {str(error).strip()}") from error
    except ValueError as error:  # a name in it is no UTF-8, which the checker itself does not bear
        raise BrokenModel(f"{_name(source)} breaks the rules of ONNX, a name is not UTF-8: {error}") from error
    return proto


def _name(source: Source) -> str:
    if isinstance(source, bytes | bytearray | memoryview):
        return f"the model of {len(source)} bytes"
    return f"'{fspath(source)}'" if isinstance(source, str | PathLike) else "the model"
