"""An ONNX model being written: the table of writers, the nodes, the stored tensors, a name for every value."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ...dtype import Array, Dtype
from ...ir import Apply, ConstantNode, Node
from ...registration import entering
from ...specs import Shape, Spec
from ...symbolic import Dim, Length
from ...symbolic.polynomial import Atom, terms_of
from ...tensor import Tensor
from ..onnx_errors import ExportError
from ..onnx_values import code_of

__all__ = ["WRITERS", "Builder", "writer"]

#: `write(builder, node, *names)` adds nodes and gives the name of the output, or a tuple of names.
Writer: TypeAlias = Callable[..., Any]

WRITERS: dict[str, Writer] = {}

_Function = TypeVar("_Function", bound=Writer)


def writer(*primitives: str) -> Callable[[_Function], _Function]:
    """Return a decorator that makes a function the writer of these primitives."""
    return entering(WRITERS, primitives, "a writer")


class Builder:
    """Collects what a model consists of; every value is known by its name.

    Attributes:
        nodes: In order.
        stored: The tensors that stand in the model.
        opset: The version of ai.onnx that is written.
        where: The place in the source of what is being written, for the nodes' descriptions.
        lengths: How open lengths are read; None where there are none.
    """

    def __init__(self, opset: int) -> None:
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []
        self.opset = opset
        self._taken: set[str] = set()
        self._constants: dict[tuple[object, ...], str] = {}
        self.where = ""
        self.lengths: Lengths | None = None

    def fresh(self, hint: str) -> str:
        """Return a name that nothing has yet."""
        name, number = hint, 1
        while name in self._taken:
            name, number = f"{hint}_{number}", number + 1
        self._taken.add(name)
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Return the name of the (first) output of a new node; the others follow as `name_1` and so on by
        `outputs_of`."""
        return self.several(operator, *inputs, outputs=outputs, **attributes)[0]

    def several(self, operator: str, *inputs: str, outputs: int, **attributes: object) -> tuple[str, ...]:
        """Return the names of all outputs of a new node."""
        names = tuple(self.fresh(operator.lower()) for _ in range(outputs))
        given = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(operator, list(inputs), list(names), name=names[0], **given)
        if self.where:
            node.doc_string = self.where
        self.nodes.append(node)
        return names

    def store(self, array: Array, hint: str = "constant") -> str:
        """Return the name of a stored tensor; equal small ones are stored once."""
        values = np.ascontiguousarray(array).reshape(np.shape(array))
        key = (values.dtype.str, values.dtype.name, values.shape, values.tobytes()) if values.size <= 64 else None
        if key is not None and hint == "constant" and key in self._constants:
            return self._constants[key]
        name = self.fresh(hint)
        self.stored.append(numpy_helper.from_array(values, name))
        if key is not None and hint == "constant":
            self._constants[key] = name
        return name

    def numbers(self, *values: int) -> str:
        """Return the name of a stored row of int64."""
        return self.store(np.asarray(values, np.int64))

    def number(self, value: float | np.generic, dtype: Dtype) -> str:
        """Return the name of a stored single number."""
        return self.store(np.asarray(value).astype(dtype))

    def reshape(self, x: str, shape: Shape) -> str:
        """Return the name of `x` in another shape."""
        opened = [place for place, length in enumerate(shape) if not isinstance(length, int)]
        if len(opened) == 1 and 0 not in shape:
            return self.add("Reshape", x, self.numbers(*(-1 if i in opened else n for i, n in enumerate(shape))))
        return self.add("Reshape", x, self.shape(shape), allowzero=1 if 0 in shape else None)

    def shape(self, shape: Shape) -> str:
        """Return the name of a shape as a row of int64, its open lengths read from the inputs."""
        return self.lengths.row(shape) if self.lengths is not None else self.numbers(*shape)

    def cast(self, x: str, dtype: Dtype) -> str:
        """Return the name of `x` in another element type."""
        return self.add("Cast", x, to=code_of(dtype))


def spec_of_node(node: Node) -> Spec:
    """Shape and dtype of a node that stands for a tensor."""
    if not isinstance(node.type, Spec):
        raise ExportError(f"a value of type {node.type} cannot be written; only tensors can")
    return node.type


def partner_dtype(node: Apply) -> Dtype:
    """Return the element type that Python numbers among the arguments take: that of the first tensor that is no
    condition."""
    arguments = node.arguments[1:] if node.applies("where") else node.arguments
    for argument in arguments:
        if isinstance(argument.type, Spec) and not argument.type.weak and not _is_number(argument):
            return argument.type.dtype
    return spec_of_node(node).dtype


def _is_number(node: Node) -> bool:
    return isinstance(node, ConstantNode) and not isinstance(node.value, Tensor | np.ndarray)


class Lengths:
    """Where in the model each open length can be read.

    Args:
        builder: What is written to.
        inputs: Names and shapes of the model's inputs.
    """

    def __init__(self, builder: Builder, inputs: Sequence[tuple[str, Sequence[Length]]]) -> None:
        self.builder = builder
        self._read: dict[str, tuple[str, int]] = {}
        self._made: dict[Dim, str] = {}
        for name, shape in inputs:
            for axis, length in enumerate(shape):
                if isinstance(length, Dim):
                    self._read.setdefault(str(length), (name, axis))

    def row(self, shape: Sequence[Length]) -> str:
        """Return the name of a shape as a row of int64."""
        known = [length for length in shape if isinstance(length, int)]
        if len(known) == len(shape):
            return self.builder.numbers(*known)
        return self.builder.add("Concat", *(self._one(length) for length in shape), axis=0)

    def _one(self, length: Length) -> str:
        """Return the name of one length as a row of one number."""
        if isinstance(length, int):
            return self.builder.numbers(length)
        if length not in self._made:
            total = ""
            for monomial, factor in (terms_of(length) or {}).items():
                part = self.builder.numbers(factor)
                for atom, power in monomial:
                    for _ in range(power):
                        part = self.builder.add("Mul", part, self._atom(atom))
                total = self.builder.add("Add", total, part) if total else part
            self._made[length] = total
        return self._made[length]

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, tuple):
            return self.builder.add("Div", *(self._one(length) for length in atom))
        if atom not in self._read:
            raise ExportError(f"the length '{atom}' is not that of an input's axis")
        name, axis = self._read[atom]
        return self.builder.add("Shape", name, start=axis, end=axis + 1)
