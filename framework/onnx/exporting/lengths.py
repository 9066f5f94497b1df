"""Lengths of axes that are open: names in the model's inputs, calculated from their shapes where they are needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...compiler.signature import Signature
from ...shape import Shape, Spec
from ...symbolic import Dim
from ...symbolic.polynomial import Atom, terms_of
from ..errors import ExportError
from .builder import Builder

__all__ = ["Axes", "Lengths", "as_declared", "opened"]

#: By input (position or name): axis to the name of its length.
Axes = Mapping[int | str, Mapping[int, str]]


def opened(signature: Signature, axes: Axes | None, names: Sequence[str]) -> Signature:
    """The signature with the lengths of these axes replaced by their names.

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


class Lengths:
    """Where in the model each open length can be read.

    Args:
        builder: What is written to.
        inputs: Names and shapes of the model's inputs.
    """

    def __init__(self, builder: Builder, inputs: Sequence[tuple[str, Sequence[Any]]]) -> None:
        self.builder = builder
        self._read: dict[str, tuple[str, int]] = {}
        self._made: dict[Any, str] = {}
        for name, shape in inputs:
            for axis, length in enumerate(shape):
                if isinstance(length, Dim):
                    self._read.setdefault(str(length), (name, axis))

    def row(self, shape: Sequence[Any]) -> str:
        """The name of a shape as a row of int64."""
        if all(isinstance(length, int) for length in shape):
            return self.builder.numbers(*shape)
        return self.builder.add("Concat", *(self._one(length) for length in shape), axis=0)

    def _one(self, length: Any) -> str:
        """The name of one length as a row of one number."""
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


def as_declared(shape: Shape) -> list[Any]:
    """The shape as a model declares it: numbers, and words for open lengths."""
    return [int(length) if isinstance(length, int | np.integer) else str(length) for length in shape]
