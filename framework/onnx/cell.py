"""A model as a cell: its weights are parameters, calling it runs its graph with the engine's operations."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..dtype import is_floating
from ..errors import ShapeError
from ..nn import Cell
from ..tensor import Parameter, Tensor
from .call import Call, Value
from .compile import compile_graph
from .program import Program
from .step import Library, Step
from .values import check_input, incoming

__all__ = ["OnnxCell"]

#: Inputs that are statistics and not weights: no gradient is asked of them.
_FROZEN = {"BatchNormalization": (3, 4)}


class _Group(Cell):
    """Parameters, or nodes, whose names share a prefix; it is never called itself."""


class OnnxNode(Cell):
    """One node of a model: a site that hooks and monitors see like any layer.

    Args:
        step: What the node does.
    """

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def construct(self, *inputs: Value) -> Any:
        """The output, or a tuple of the outputs; a missing input is None."""
        results = self._step.run(Call(*self._step.call), inputs)
        return results[0] if len(results) == 1 else results

    def run(self, call: Call, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The outputs, as the program wants them."""
        found = self(*inputs)
        return found if isinstance(found, tuple) else (found,)

    def describe(self) -> str:
        """Its operator."""
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

    def __init__(self, model: Any) -> None:  # onnx.ModelProto, checked
        super().__init__()
        self.name: str = model.graph.name
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in model.functions}
        self._program: Program = compile_graph(model.graph, Library(self.opsets, functions))
        self._declared = {info.name: info.type for info in model.graph.input}
        self.input_names, self.output_names = self._program.inputs, self._program.outputs
        self._adopt(_frozen_names(model.graph))
        self.nodes = _Group()
        self._show_nodes()

    def _adopt(self, frozen: set[str]) -> None:
        """Nothing; stored floating-point tensors become parameters of this cell and the cells below."""
        constants = self._program.constants
        for name, value in constants.items():
            if not isinstance(value, Tensor) or not is_floating(value.dtype):
                continue
            parameter = Parameter(value.numpy().copy(), requires_grad=name not in frozen)
            constants[name] = parameter
            _place(self, name, parameter)

    def _show_nodes(self) -> None:
        """Nothing; every step of the program that has no subgraph is run by a cell of its own."""
        for number, step in enumerate(self._program.steps):
            if step.bodies:
                continue
            node, name = OnnxNode(step), (step.call[0] or f"node{number}").replace(".", "/")
            if name in self.nodes.name_cells():
                name = f"{name}#{number}"
            self.nodes._insert(name, node)  # not as an attribute: a node may be called "construct"
            self._program.runners[number] = node.run

    def construct(self, *inputs: Any) -> Any:
        """The output, or a tuple of the outputs in the order of `output_names`.

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

    def run(self, **inputs: Any) -> dict[str, Value]:
        """The outputs by name, from inputs by name."""
        missing = [name for name in self.input_names if name not in inputs]
        if missing or len(inputs) != len(self.input_names):
            raise ShapeError(
                f"model '{self.name}' expects inputs {', '.join(self.input_names)}, got {', '.join(inputs)}"
            )
        found = self(*(inputs[name] for name in self.input_names))
        outputs = found if len(self.output_names) > 1 else (found,)
        return dict(zip(self.output_names, outputs, strict=True))

    def describe(self) -> str:
        """Its name, inputs and outputs."""
        return f"{self.name!r}, inputs={list(self.input_names)}, outputs={list(self.output_names)}"


def _frozen_names(graph: Any) -> set[str]:
    places: Mapping[str, tuple[int, ...]] = _FROZEN
    return {
        node.input[place] for node in graph.node for place in places.get(node.op_type, ()) if place < len(node.input)
    }


def _place(root: Cell, name: str, parameter: Parameter) -> None:
    """Nothing; the parameter stands under its dotted name, one cell a dot; under one name where that cannot be."""
    *folders, last = name.split(".")
    cell = root
    for folder in folders:
        below = cell._cells.get(folder)
        if not folder or folder in cell._parameters:
            break
        if below is None:
            below = _Group()
            cell._insert(folder, below)
        cell = below
    else:
        if last and last not in cell._cells and last not in cell._parameters:
            cell._insert(last, parameter)
            parameter.name = name
            return
    root._insert(name.replace(".", "/"), parameter)
