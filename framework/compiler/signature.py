"""What a compiled function is specialised on: structure of arguments, specs of tensors, everything else by value.

flatten      a value -> its tensors and the structure around them; unflatten goes back
Signature    of a call: equal signatures may share a graph
checker      one generated function that asks whether a call has a signature, and gives its arrays; some 100 ns a tensor
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from ..ir import OpaqueType, type_of
from ..random import Key
from ..specs import Spec
from ..tensor import Array, Parameter, Tensor

__all__ = ["ArgumentStructure", "Leaf", "Signature", "checker", "flatten", "unflatten"]


#: What a signature does not know by value: tensors, arrays and random keys.
Leaf: TypeAlias = Tensor | Array | Key


@dataclass(frozen=True, slots=True)
class StaticArgument:
    """A value that is compared by type and value, or by identity where it cannot be hashed."""

    value: object

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StaticArgument):
            return NotImplemented
        mine, its = self.value, other.value
        return mine is its or (type(mine) is type(its) and _hashable(mine) and bool(mine == its))

    def __hash__(self) -> int:
        return hash((type(self.value), self.value)) if _hashable(self.value) else id(self.value)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ArgumentStructure:
    """How values were nested: `kind` is "leaf", "static", or the class of a container."""

    kind: Any  # a word, or a class that is called
    children: "tuple[ArgumentStructure, ...]" = ()
    keys: Any = None  # keys of a dict; a `StaticArgument`; class of a leaf that is no tensor


_LEAF = ArgumentStructure("leaf")


def flatten(value: Any, leaves: list[Leaf]) -> ArgumentStructure:
    """Return the structure of a value, its tensors, arrays and random keys appended to `leaves`."""
    if isinstance(value, Tensor | np.ndarray | Key):
        leaves.append(value)
        return _LEAF
    kind = type(value)
    if kind is dict:
        return ArgumentStructure(dict, tuple(flatten(part, leaves) for part in value.values()), tuple(value))
    if kind is tuple or kind is list or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return ArgumentStructure(kind, tuple(flatten(part, leaves) for part in value))
    return ArgumentStructure("static", keys=StaticArgument(value))


def unflatten(structure: ArgumentStructure, leaves: Iterator[object]) -> Any:  # as the structure nests it
    """Return the value of that structure, its tensors taken from the iterator `leaves`."""
    if structure.kind == "leaf":
        return next(leaves)
    if structure.kind == "static":
        return structure.keys.value
    parts = [unflatten(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    return structure.kind(*parts) if hasattr(structure.kind, "_fields") else structure.kind(parts)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a call without the values of its tensors; equal signatures share a graph.

    Attributes:
        structure: Of `(arguments, options)`.
        specs: Types of its tensors and random keys, in order.
        needs: Which of them require a gradient.
    """

    structure: ArgumentStructure
    specs: tuple[Spec | OpaqueType, ...]
    needs: tuple[bool, ...] = ()

    @classmethod
    def of(cls, arguments: tuple[object, ...], options: dict[str, object]) -> "tuple[Signature, list[Array | Key]]":
        """Return the signature of a call, and the arrays of its tensors."""
        leaves: list[Leaf] = []
        structure = flatten((arguments, options), leaves)
        return cls.from_leaves(structure, leaves), [x._data if isinstance(x, Tensor) else x for x in leaves]

    @classmethod
    def from_leaves(cls, structure: ArgumentStructure, leaves: Sequence[Leaf]) -> "Signature":
        """Return the signature of values of this structure with these tensors."""
        needs = tuple(isinstance(x, Tensor) and x.requires_grad for x in leaves)
        specs = tuple(type_of(x) for x in leaves)
        return cls(structure, cast("tuple[Spec | OpaqueType, ...]", specs), needs)

    def fill(self, tensors: Sequence[object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return arguments and options of this structure, with these tensors."""
        arguments, options = unflatten(self.structure, iter(tensors))
        return arguments, options


def checker(signature: Signature) -> Callable[..., list[Array | Key] | None]:
    """Return `check(arguments, options)`, which gives the arrays of a call of this signature, None for another call."""
    writer = _TestWriter()
    arguments, options = signature.structure.children
    specs = iter(zip(signature.specs, signature.needs, strict=True))
    writer.container(arguments, "arguments", specs)
    if options.children:
        writer.container(options, "options", specs)
    else:
        writer.require("not options")
    lines = ["def check(arguments, options):", *writer.lines, f"    return [{', '.join(writer.arrays)}]"]
    exec("\n".join(lines), writer.names)
    check: Callable[..., list[Array | Key] | None] = writer.names["check"]
    return check


#: The tensors and keys that are still to be met: their types, and whether they require a gradient.
_Leaves: TypeAlias = Iterator[tuple[Spec | OpaqueType, bool]]


class _TestWriter:
    """Writes the tests of a signature one after the other."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "Tensor": Tensor, "Parameter": Parameter, "ndarray": np.ndarray, "Static": StaticArgument, "Key": Key
        }  # fmt: skip
        self.lines: list[str] = []
        self.arrays: list[str] = []

    def require(self, test: str) -> None:
        self.lines.append(f"    if not ({test}): return None")

    def constant(self, value: object) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def container(self, structure: ArgumentStructure, value: str, specs: _Leaves) -> None:
        """Write the tests of a tuple, list or dict and all that is in it."""
        if structure.kind is dict:
            self.require(f"tuple({value}) == {self.constant(structure.keys)}")
            places = [f"{value}[{self.constant(key)}]" for key in structure.keys]
        else:
            self.require(f"len({value}) == {len(structure.children)}")
            places = [f"{value}[{number}]" for number in range(len(structure.children))]
        for child, place in zip(structure.children, places, strict=True):
            self._value(child, place, specs)

    def _value(self, structure: ArgumentStructure, place: str, specs: _Leaves) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {place}")
        if structure.kind == "leaf":
            self._leaf(name, *next(specs))
        elif structure.kind == "static":
            static: StaticArgument = structure.keys
            known = self.constant(static.value)
            self.require(f"{name} is {known} or Static({name}) == {self.constant(static)}")
        else:
            self.require(f"type({name}) is {self.constant(structure.kind)}")
            self.container(structure, name, specs)

    def _leaf(self, name: str, spec: Spec | OpaqueType, needs: bool) -> None:
        if isinstance(spec, OpaqueType):
            self.require(f"isinstance({name}, Key)")
            self.arrays.append(name)
            return
        array = f"a{len(self.lines)}"
        self.lines.append(f"    kind = type({name})")
        self.lines.append("    if kind is Tensor or kind is Parameter:")
        self.lines.append(f"        {array} = {name}._data")
        self.lines.append(f"        if {name}.requires_grad is not {needs}: return None")
        self.lines.append("    elif kind is ndarray:")
        self.lines.append("        " + ("return None" if needs else f"{array} = {name}"))
        self.lines.append("    else: return None")
        shape, dtype = self.constant(tuple(spec.shape)), self.constant(spec.dtype)
        self.require(f"{array}.shape == {shape} and ({array}.dtype is {dtype} or {array}.dtype == {dtype})")
        self.arrays.append(array)
