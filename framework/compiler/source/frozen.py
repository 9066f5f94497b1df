"""Values with the content that their lists and dicts have now: what they are compared by where paths meet."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...random import Key
from ...tensor import Tensor
from ..traced import TracedKey, TracedTensor
from .unknown import Gap
from .values import kind_of

__all__ = ["Frozen", "describe", "freeze", "same", "thaw"]

_BY_VALUE = (bool, int, float, complex, str, bytes, type(None), range, slice, np.dtype, frozenset)


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """A list, tuple or dict and the content that it has now.

    Attributes:
        owner: The object itself; None to compare content only.
        kind: Its class.
        keys: Of a dict, else None.
        parts: What it holds, frozen.
    """

    owner: Any
    kind: type
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]


def freeze(value: Any, *, content: bool = False) -> Any:
    """The value, lists and dicts with what they hold now; with `content` it is told from others by that alone."""
    if isinstance(value, list | tuple):
        return Frozen(None if content else value, type(value), None, tuple([freeze(part) for part in value]))
    if type(value) is dict:
        return Frozen(None if content else value, dict, tuple(value), tuple([freeze(part) for part in value.values()]))
    return value


def thaw(value: Any) -> Any:
    """The value itself again; of content alone, a list or tuple that holds it."""
    if not isinstance(value, Frozen):
        return value
    return value.owner if value.owner is not None else [thaw(part) for part in value.parts]


def same(a: Any, b: Any) -> bool:
    """Whether two frozen values are one: equal if simple, the same node if traced, else the same object."""
    if a is b:
        return True
    if isinstance(a, Frozen):
        if not isinstance(b, Frozen):
            return False
        if a.owner is not None and a.owner is b.owner and not isinstance(a.owner, tuple):
            return True
        alike = a.kind is b.kind and a.keys == b.keys and len(a.parts) == len(b.parts)
        immutable = a.kind is not list and a.kind is not dict
        return alike and (immutable or a.owner is None) and all(map(same, a.parts, b.parts))
    if isinstance(a, TracedTensor | TracedKey):
        return type(a) is type(b) and a.node is b.node
    if isinstance(a, Gap):
        return isinstance(b, Gap)
    return type(a) is type(b) and (isinstance(a, _BY_VALUE) or type(a) is Key) and _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float | complex):
        return repr(a) == repr(b)  # a NaN is itself, and 0.0 is not -0.0
    return bool(a == b)


def describe(value: Any) -> str:
    """The type of a value, in words."""
    if isinstance(value, Frozen):
        return f"a {value.kind.__name__} of {len(value.parts)}"
    kind = kind_of(value)
    if kind is not None:
        return f"a Python {kind.__name__}"
    if isinstance(value, Tensor):
        return f"a tensor {value.shape} {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"
