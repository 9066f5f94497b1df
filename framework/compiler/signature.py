"""What a compiled function is specialised on: structure of arguments, specs of tensors, everything else by value."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..primitive import spec_of
from ..shape import Spec
from ..tensor import Array, Tensor

__all__ = ["Signature", "Structure", "flatten", "unflatten"]


@dataclass(frozen=True, slots=True)
class Structure:
    """How values were nested: `kind` is "leaf", "static", or the class of a container."""

    kind: Any
    children: "tuple[Structure, ...]" = ()
    keys: Any = None  # keys of a dict; the value of something static


_LEAF = Structure("leaf")


def flatten(value: Any, leaves: list[Any]) -> Structure:
    """The structure of a value, its tensors and arrays appended to `leaves`."""
    if isinstance(value, Tensor | np.ndarray):
        leaves.append(value)
        return _LEAF
    if isinstance(value, dict):
        return Structure(dict, tuple(flatten(part, leaves) for part in value.values()), tuple(value))
    if isinstance(value, tuple | list):
        return Structure(type(value), tuple(flatten(part, leaves) for part in value))
    return Structure("static", keys=value)


def unflatten(structure: Structure, leaves: Any) -> Any:
    """The value of that structure, its tensors taken from the iterator `leaves`."""
    if structure.kind == "leaf":
        return next(leaves)
    if structure.kind == "static":
        return structure.keys
    parts = [unflatten(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    return structure.kind(*parts) if hasattr(structure.kind, "_fields") else structure.kind(parts)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a call without the values of its tensors; equal signatures share a graph.

    Attributes:
        structure: Of `(arguments, options)`.
        specs: Of its tensors, in order.
    """

    structure: Structure
    specs: tuple[Spec, ...]

    @classmethod
    def of(cls, arguments: tuple[Any, ...], options: dict[str, Any]) -> "tuple[Signature, list[Array]]":
        """The signature of a call, and the arrays of its tensors."""
        leaves: list[Any] = []
        structure = flatten((arguments, options), leaves)
        arrays = [x._data if isinstance(x, Tensor) else x for x in leaves]
        return cls(structure, tuple(spec_of(x) for x in leaves)), arrays

    def fill(self, tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and options of this structure, with these tensors."""
        arguments, options = unflatten(self.structure, iter(tensors))
        return arguments, options

    def flatten_output(self, output: Any) -> tuple[list[Any], Structure]:
        """The tensors of what a function returned, and how they are nested."""
        leaves: list[Any] = []
        return leaves, flatten(output, leaves)
