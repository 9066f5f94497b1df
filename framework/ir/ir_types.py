"""What is known of a value before it is computed: the type of every node.

Spec            a tensor: shape and dtype (lengths may be symbolic)
TupleType       several values; lists and dicts are flattened into tuples before they enter a graph
FunctionType    a graph or a closure: what it takes and what it gives
OpaqueType      anything else that flows through a graph as it is: a random key, None, a word
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..random import Key
from ..specs import Spec, spec_of
from ..symbolic import Dim, Quotient
from ..tensor import Tensor

__all__ = ["Abstract", "FunctionType", "OpaqueType", "TupleType", "type_of"]


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type of a tuple of values."""

    elements: "tuple[Abstract, ...]"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """The type of a graph or a closure."""

    arguments: "tuple[Abstract, ...]"
    result: "Abstract"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """The type of a value that no primitive computes with: `kind` is its Python class, by name."""

    kind: str


Abstract: TypeAlias = Spec | TupleType | FunctionType | OpaqueType

#: The result of a graph that is still being built.
UNKNOWN = OpaqueType("unknown")


def type_of(value: object) -> Abstract:  # any value that may stand in a constant or be given to a graph
    """Return the type of a value: of a tensor or array its spec, of a Python number a weak one."""
    if isinstance(value, Tensor | np.ndarray | np.generic | bool | int | float | complex):
        spec: Spec = spec_of(value)
        return spec
    if isinstance(value, Dim | Quotient):
        return spec_of(0 if isinstance(value, Dim) else 0.0)  # type: ignore[no-any-return] # a Spec, for a number
    if isinstance(value, tuple | list):
        return TupleType(tuple(type_of(part) for part in value))
    return OpaqueType("Key" if isinstance(value, Key) else type(value).__name__)
