"""A graph of the model as a list of steps, and how the steps run.

    compile_graph   nodes of the file -> steps; every operator is looked up here, so an unknown one is told at once
    Program.run     the steps one after the other, over a dict of values by name; a value is dropped after its last use

A subgraph (of If, Loop, Scan, SequenceMap) is a program too, which starts from the values of the graph around it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .call import Call, Value
from .errors import BrokenModel
from .step import Runner, Step

__all__ = ["Program"]


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
