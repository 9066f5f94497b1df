"""A graph of the model as a list of steps, and how the steps run.

    compile_graph   nodes of the file -> steps; every operator is looked up here, so an unknown one is told at once
    Program.run     the steps one after the other, over a dict of values by name; a value is dropped after its last use

A subgraph (of If, Loop, Scan, SequenceMap) is a program too, which starts from the values of the graph around it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, helper

from ..context import CAPTURE
from ..errors import EngineError
from ..tensor import Parameter, Tensor
from .call import Body, Call, Value
from .errors import BrokenModel, UnknownOperator
from .functions import Expansion, expansion_of
from .registry import Implementation, find, nearest
from .values import from_onnx

__all__ = ["Library", "Program", "Step", "compile_graph"]

#: Runs a step: from its call and inputs to its outputs.
Runner: TypeAlias = Callable[[Call, Sequence[Value]], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Library:
    """What names mean in a model.

    Attributes:
        opsets: Version of each imported domain, "" for ai.onnx.
        functions: The model's own functions by domain and name.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any] = field(default_factory=dict)  # onnx.FunctionProto

    def version(self, domain: str) -> int:
        """The opset version in force; what is not imported counts as its newest."""
        return self.opsets.get(domain, 1 << 30)


@dataclass(frozen=True, slots=True)
class Step:
    """One node, ready to run.

    Attributes:
        call: What a `Call` is made of.
        function: The implementation.
        inputs: Names of its inputs, "" for a missing one.
        bodies: The programs of its subgraphs.
        done: Values that nothing needs after it.
    """

    call: tuple[str, str, str, int, tuple[str, ...], Mapping[str, Any]]
    function: Implementation
    inputs: tuple[str, ...]
    bodies: "tuple[Program, ...]" = ()
    done: tuple[str, ...] = ()

    def run(self, call: Call, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The outputs; an error names the node."""
        try:
            return _folded(self, call, arguments)
        except EngineError as error:
            raise _named(error, call) from error.__cause__

    def reads(self) -> set[str]:
        """The names of all values that it needs, those that its subgraphs see included."""
        return {*filter(None, self.inputs)}.union(*(body.borrowed for body in self.bodies))


class Program:
    """Steps with the names of what goes in and comes out.

    Args:
        steps: In an order in which every value exists before it is used.
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        constants: Values that are there from the start.
        optional: Outputs that may stay away: those of a function that its caller does not ask for.

    Attributes:
        borrowed: Names that it takes from the graphs around it.
        runners: For each step what runs it on a call and inputs; whoever wants to look on puts itself there.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Sequence[str],
        outputs: Sequence[str],
        constants: Mapping[str, Value],
        optional: Sequence[str] = (),
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.constants, self.optional = dict(constants), frozenset(optional)
        own = {*inputs}.union(*(step.call[4] for step in steps))
        self.borrowed = {*outputs}.union(*(step.reads() for step in steps)) - own - set(constants)
        self.steps = _ended(steps, own - set(outputs))
        self.runners: list[Runner] = [step.run for step in self.steps]

    def run(self, visible: Mapping[str, Value], inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The outputs; `visible` are the values of the graphs around this one."""
        values = {**visible, **self.constants, **dict(zip(self.inputs, inputs, strict=False))}
        for step, run in zip(self.steps, self.runners, strict=True):
            self._run_step(step, run, values)
        missing = [name for name in self.outputs if name not in values and name not in self.optional]
        if missing:
            raise BrokenModel(f"the graph's outputs {', '.join(missing)} are computed by none of its nodes")
        return tuple([values.get(name) for name in self.outputs])

    def _run_step(self, step: Step, run: "Runner", values: dict[str, Value]) -> None:
        call = Call(*step.call)
        try:
            arguments = [values[name] if name else None for name in step.inputs]
        except KeyError as error:
            raise BrokenModel(
                f"{call.operator} '{call.name}' reads {error}, which no node before it computes"
            ) from error
        if step.bodies:
            call.visible = values
        results = run(call, arguments)
        values.update((name, value) for name, value in zip(call.outputs, results, strict=False) if name)
        for name in step.done:
            values.pop(name, None)


def _ended(steps: Sequence[Step], passing: set[str]) -> tuple[Step, ...]:
    """The steps, each knowing which of the passing values it is the last to need."""
    needed: set[str] = set()
    found = []
    for step in reversed(steps):
        touched = (step.reads() | {*step.call[4]}) & passing
        found.append(replace(step, done=tuple(sorted(touched - needed))))
        needed |= touched
    return tuple(found[::-1])


def _named(error: EngineError, call: Call) -> EngineError:
    """The error with the innermost node named in front of its message."""
    if error.site is None:
        error.site = call.name
        error.args = (f"in node '{call.name}' ({call.operator}): {error.args[0] if error.args else ''}",)
    return error


def _folded(step: Step, call: Call, arguments: Sequence[Value]) -> tuple[Value, ...]:
    """The outputs; while a function is captured, a step over known values only is computed and not captured.

    So shapes, and what is calculated from them, are there when an operator needs them.
    """
    token = None
    if not step.bodies and arguments and CAPTURE.get() is not None and all(map(_is_known, arguments)):
        token = CAPTURE.set(None)
    try:
        result = step.function(call, *arguments)
    finally:
        if token is not None:
            CAPTURE.reset(token)
    return result if isinstance(result, tuple) else (result,)


def _is_known(value: Value) -> bool:
    if isinstance(value, list):
        return all(map(_is_known, value))
    if isinstance(value, Tensor):
        return value.__fallback__ is None and not isinstance(value, Parameter) and not value.requires_grad
    return True


def compile_graph(graph: Any, library: Library, bindings: Mapping[str, Any] | None = None) -> Program:
    """The program of an `onnx.GraphProto`; `bindings` are the attributes of the function it belongs to."""
    constants = {tensor.name: from_onnx(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        constants[sparse.values.name] = dense(sparse)
    steps = [compile_node(node, library, bindings or {}) for node in graph.node]
    inputs = [info.name for info in graph.input if info.name not in constants]
    return Program(steps, inputs, [info.name for info in graph.output], constants)


def compile_function(function: Any, library: Library, attributes: Mapping[str, Any]) -> Program:
    """The program of an `onnx.FunctionProto` called with these attributes."""
    bindings = {a.name: _attribute(a, library, {}) for a in function.attribute_proto}
    bindings.update(attributes)
    opsets = {**library.opsets, **{_domain(entry.domain): entry.version for entry in function.opset_import}}
    inside = Library(opsets, library.functions)
    steps = [compile_node(node, inside, bindings) for node in function.node]
    return Program(steps, list(function.input), list(function.output), {}, optional=list(function.output))


def compile_node(node: Any, library: Library, bindings: Mapping[str, Any]) -> Step:
    """The step of an `onnx.NodeProto`.

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
    return Step(call, _implementation(node, name, library, attributes), tuple(node.input), bodies)


def _implementation(node: Any, name: str, library: Library, attributes: Mapping[str, Any]) -> Implementation:
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


def _expanding(expansion: Expansion, library: Library, attributes: Mapping[str, Any]) -> Implementation:
    """Runs the definition that the ONNX standard gives of an operator in terms of others."""
    programs: dict[Any, Program] = {}
    whole = {**{name: _attribute(a, library, {}) for name, a in expansion.defaults().items()}, **attributes}

    def run(call: Call, *inputs: Value) -> tuple[Value, ...]:
        key, function = expansion.function(inputs)
        if key not in programs:
            programs[key] = compile_function(function, library, whole)
        return programs[key].run({}, _filled(inputs, len(programs[key].inputs)))

    return run


def _filled(inputs: Sequence[Value], count: int) -> list[Value]:
    return [*inputs, *(None,) * (count - len(inputs))]


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _attribute(attribute: Any, library: Library, bindings: Mapping[str, Any]) -> Any:
    """The value of an `onnx.AttributeProto`; a subgraph as something to call."""
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


def _body(graph: Any, library: Library, bindings: Mapping[str, Any]) -> Body:
    return compile_graph(graph, library, bindings).run


def dense(sparse: Any) -> Value:  # onnx.SparseTensorProto
    """The dense tensor of a sparse one."""
    values, places = from_onnx(sparse.values), from_onnx(sparse.indices)
    result = np.zeros(tuple(sparse.dims), values.dtype)
    index = places.numpy()
    if index.ndim == 1:
        result.reshape(-1)[index] = values.numpy()
    else:
        result[tuple(index.T)] = values.numpy()
    return Tensor(result)
