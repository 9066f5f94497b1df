"""One node of the model, ready to run, and the operators it may be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..context import CAPTURE
from ..errors import EngineError
from ..tensor import Parameter, Tensor
from .call import Call, Value
from .registry import Implementation

if TYPE_CHECKING:
    from .program import Program

__all__ = ["Library", "Step", "named"]


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
            raise named(error, call) from error.__cause__

    def reads(self) -> set[str]:
        """The names of all values that it needs, those that its subgraphs see included."""
        return {*filter(None, self.inputs)}.union(*(body.borrowed for body in self.bodies))


def named(error: EngineError, call: Call) -> EngineError:
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
