"""One application of an ONNX operator, as its implementation sees it: attributes, versions, outputs, subgraphs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..tensor import Array, Tensor
from .errors import UnsupportedFeature

__all__ = ["Body", "Call", "Value"]

#: What flows along the edges of a model: a tensor, an array of strings, a list (a sequence), None (an empty optional).
Value: TypeAlias = Any

#: A subgraph: given the values it may see of the graphs around it, and its inputs, its outputs.
Body: TypeAlias = Callable[[dict[str, Value], Sequence[Value]], tuple[Value, ...]]


class Call:
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
        attributes: Mapping[str, Any],
    ) -> None:
        self.name, self.operator, self.domain, self.version = name, operator, domain, version
        self.outputs, self.attributes = outputs, attributes
        self.visible: dict[str, Value] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute of that name, or the default."""
        return self.attributes.get(name, default)

    def wants(self, output: int) -> bool:
        """Whether that output is used."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def run(self, body: Body, *inputs: Value) -> tuple[Value, ...]:
        """The outputs of a subgraph."""
        return body(self.visible, inputs)

    def refuse(self, what: str) -> UnsupportedFeature:
        """The error to raise for something that the operator asks for and we do not do."""
        return UnsupportedFeature(f"{self.operator} '{self.name}' asks for {what}, which the importer does not do")


def array_of(value: Value) -> Array:
    """The values as an array: of what an operator needs to know while it runs (shapes, axes, sizes).

    Raises:
        CaptureError: The value is computed from the inputs of a function that is being captured.
    """
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def whole_numbers(value: Value) -> tuple[int, ...]:
    """The values as Python integers."""
    return tuple(int(number) for number in array_of(value).reshape(-1))
