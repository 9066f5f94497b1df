"""The table of ONNX operators, and the call that an operator's implementation receives."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..errors import NameTaken
from ..tensor import Array, Tensor
from .onnx_errors import UnsupportedFeature

__all__ = ["OPERATORS", "Body", "Elements", "OperatorCall", "Value", "find", "nearest", "operator"]

#: What flows along the edges of a model: a tensor, an array of strings, a list (a sequence), None (an empty optional).
Value: TypeAlias = Tensor | Array | list["Value"] | None

#: Tensors, and arrays of words.
Elements: TypeAlias = Tensor | Array

#: A subgraph: given the values it may see of the graphs around it, and its inputs, its outputs.
Body: TypeAlias = Callable[[dict[str, Value], Sequence[Value]], tuple[Value, ...]]


class OperatorCall:
    """A node of the model at the moment it runs.

    Attributes:
        name: The node's name, or the name of its first output.
        operator: Its operator type.
        domain: The operator's domain, "" for ai.onnx.
        version: The opset version in force for that domain.
        outputs: Names of the outputs asked for, "" for one that is not wanted.
        attributes: Attribute values: numbers, words, tuples of them, tensors, subgraphs (`Body`).
        visible: The values of the running graph and those around it, for subgraphs.
    """

    __slots__ = ("attributes", "domain", "name", "operator", "outputs", "version", "visible")

    def __init__(
        self,
        name: str,
        operator: str,
        domain: str,
        version: int,
        outputs: tuple[str, ...],
        attributes: Mapping[str, object],
    ) -> None:
        self.name, self.operator, self.domain, self.version = name, operator, domain, version
        self.outputs, self.attributes = outputs, attributes
        self.visible: dict[str, Value] = {}

    def get(self, name: str, default: object = None) -> Any:
        """Return the attribute of that name, or the default."""
        return self.attributes.get(name, default)

    def wants(self, output: int) -> bool:
        """Return whether that output is used."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def run(self, body: Body, *inputs: Value) -> tuple[Value, ...]:
        """Return the outputs of a subgraph."""
        return body(self.visible, inputs)

    def refuse(self, what: str) -> UnsupportedFeature:
        """Return the error to raise for something that the operator asks for and we do not do."""
        return UnsupportedFeature(f"{self.operator} '{self.name}' asks for {what}, which the importer does not do")


def array_of(value: Value) -> Array:
    """Return the values as an array: of what an operator needs to know while it runs (shapes, axes, sizes).

    Raises:
        CaptureError: The value is computed from the inputs of a function that is being captured.
    """
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def whole_numbers(value: Value) -> tuple[int, ...]:
    """Return the values as Python integers."""
    return tuple(int(number) for number in array_of(value).reshape(-1))


#: `implementation(call, *inputs)` gives the output, or a tuple of outputs; a missing input is None.
Implementation: TypeAlias = Callable[..., Any]

#: By domain and name, the implementations in order of the version since which they hold.
OPERATORS: dict[tuple[str, str], list[tuple[int, Implementation]]] = {}

_Function = TypeVar("_Function", bound=Implementation)


def operator(name: str, *, since: int = 1, domain: str = "") -> Callable[[_Function], _Function]:
    """Return a decorator that makes a function the implementation of an operator from opset version `since` on."""

    def register(function: _Function) -> _Function:
        versions = OPERATORS.setdefault((domain, name), [])
        if any(version == since for version, _ in versions):
            raise NameTaken(f"operator {name} of domain '{domain}' has an implementation since version {since} already")
        versions.append((since, function))
        versions.sort(key=lambda entry: entry[0])
        return function

    return register


def find(domain: str, name: str, version: int) -> Implementation | None:
    """Return the implementation that holds in that version of the opset."""
    found = None
    for since, function in OPERATORS.get((domain, name), ()):
        if since <= version:
            found = function
    return found


def nearest(domain: str, name: str) -> str:
    """Return `; did you mean ...?`, or nothing, for an operator name that is not in the table."""
    close = get_close_matches(name, [known for where, known in OPERATORS if where == domain], n=1)
    return f"; did you mean {close[0]}?" if close else ""
