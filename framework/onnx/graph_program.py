"""An ONNX graph as a list of steps, and how the steps run.

    compile_graph   nodes of the file -> steps; it looks up every operator, so an unknown one is reported at once
    Program.run     the steps one after the other, over a dict of values by name; a value is dropped after its last use

A subgraph (of If, Loop, Scan, SequenceMap) is a program too, which starts from the values of the graph around it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onnx import FunctionProto

from ..context import CAPTURE
from ..errors import EngineError
from ..tensor import Parameter, Tensor
from .onnx_errors import BrokenModel
from .operator_call import Implementation, OperatorCall, Value

__all__ = ["Library", "NodeStep", "OnnxProgram", "named"]

#: Runs a step: from its call and inputs to its outputs.
Runner: TypeAlias = Callable[[OperatorCall, Sequence[Value]], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Library:
    """What names mean in a model.

    Attributes:
        opsets: Version of each imported domain, "" for ai.onnx.
        functions: The model's own functions by domain and name.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionProto] = field(default_factory=dict)

    def version(self, domain: str) -> int:
        """Return the opset version in force; what is not imported counts as its newest."""
        return self.opsets.get(domain, 1 << 30)


@dataclass(frozen=True, slots=True)
class NodeStep:
    """One node, ready to run.

    Attributes:
        call: What a `Call` is made of.
        function: The implementation.
        inputs: Names of its inputs, "" for a missing one.
        bodies: The programs of its subgraphs.
        done: Values that nothing needs after it.
    """

    call: tuple[str, str, str, int, tuple[str, ...], Mapping[str, object]]
    function: Implementation
    inputs: tuple[str, ...]
    bodies: "tuple[OnnxProgram, ...]" = ()
    done: tuple[str, ...] = ()

    def run(self, call: OperatorCall, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Return the outputs; an error names the node."""
        try:
            return _folded(self, call, arguments)
        except EngineError as error:
            raise named(error, call) from error.__cause__

    def reads(self) -> set[str]:
        """Return the names of all values that it needs, those that its subgraphs see included."""
        return {*filter(None, self.inputs)}.union(*(body.borrowed for body in self.bodies))


def named(error: EngineError, call: OperatorCall) -> EngineError:
    """Return the error with the innermost node named in front of its message."""
    if error.site is None:
        error.site = call.name
        error.args = (f"in node '{call.name}' ({call.operator}): {error.args[0] if error.args else ''}",)
    return error


def _folded(step: NodeStep, call: OperatorCall, arguments: Sequence[Value]) -> tuple[Value, ...]:
    """Return the outputs; while a function is captured, a step over known values only is computed and not captured.

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


class OnnxProgram:
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
        steps: Sequence[NodeStep],
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
        """Return the outputs; `visible` are the values of the graphs around this one."""
        values = {**visible, **self.constants, **dict(zip(self.inputs, inputs, strict=False))}
        for step, run in zip(self.steps, self.runners, strict=True):
            self._run_step(step, run, values)
        missing = [name for name in self.outputs if name not in values and name not in self.optional]
        if missing:
            raise BrokenModel(f"the graph's outputs {', '.join(missing)} are computed by none of its nodes")
        return tuple([values.get(name) for name in self.outputs])

    def _run_step(self, step: NodeStep, run: "Runner", values: dict[str, Value]) -> None:
        call = OperatorCall(*step.call)
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


def _ended(steps: Sequence[NodeStep], passing: set[str]) -> tuple[NodeStep, ...]:
    """Return the steps, each knowing which of the passing values it is the last to need."""
    needed: set[str] = set()
    found = []
    for step in reversed(steps):
        touched = (step.reads() | {*step.call[4]}) & passing
        found.append(replace(step, done=tuple(sorted(touched - needed))))
        needed |= touched
    return tuple(found[::-1])
