"""How values that differ between paths become one: which parts stay known, which become inputs or results of a graph.

    freeze     a value with the content that its lists and dicts have now
    unify      several such values -> a plan: what is the same stays, tensors and numbers of one type become leaves
    extract    plan and value -> the nodes of its leaves
    rebuild    plan and nodes -> a value

Tensors must agree in shape and dtype. Python numbers become numbers that are not known; next to a tensor of no axes
they take its dtype. What does not agree becomes a `Gap`, which is an error for whoever reads it, and for nobody else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from ...dtype import Number, promote_scalar
from ...ir import Abstract, Node, OpaqueType
from ...random import Key
from ...specs import Spec
from ...tensor import Tensor
from ..traced import TracedKey, TracedTensor
from .traced_numbers import NUMBER_DTYPES, Gap, as_weak, kind_of, number_tensor

__all__ = [
    "MISSING",
    "Frozen",
    "KnownPart",
    "Leaf",
    "Plan",
    "describe",
    "extract",
    "freeze",
    "rebuild",
    "same",
    "thaw",
    "types_of",
    "unify",
]

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

    owner: object
    kind: type
    keys: tuple[object, ...] | None
    parts: tuple[object, ...]


def freeze(value: object, *, content: bool = False) -> object:
    """Return the value, lists and dicts with what they hold now; with `content` that alone tells it from others."""
    if isinstance(value, list | tuple):
        return Frozen(None if content else value, type(value), None, tuple([freeze(part) for part in value]))
    if type(value) is dict:
        return Frozen(None if content else value, dict, tuple(value), tuple([freeze(part) for part in value.values()]))
    return value


def thaw(value: object) -> object:
    """Return the value itself again; of content alone, a list or tuple that holds it."""
    if not isinstance(value, Frozen):
        return value
    return value.owner if value.owner is not None else [thaw(part) for part in value.parts]


def same(a: object, b: object) -> bool:
    """Return whether two frozen values are one: equal if simple, the same node if traced, else the same object."""
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


def _equal(a: object, b: object) -> bool:
    if isinstance(a, float | complex):
        return repr(a) == repr(b)  # a NaN is itself, and 0.0 is not -0.0
    return bool(a == b)


def describe(value: object) -> str:
    """Return the type of a value, in words."""
    if isinstance(value, Frozen):
        return f"a {value.kind.__name__} of {len(value.parts)}"
    kind = kind_of(value)
    if kind is not None:
        return f"a Python {kind.__name__}"
    if isinstance(value, Tensor):
        return f"a tensor {value.shape} {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"


#: In the place of a value that is not there on one of the paths.
MISSING = Gap("is not assigned on every path that leads here; assign it before, or on all of them")

# Values are those of the user's program: anything.
Sees: TypeAlias = Callable[[Node], bool]


@dataclass(frozen=True, slots=True, eq=False)
class KnownPart:
    """A part that is the same on every path."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownPart) and same(self.value, other.value)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor, a number (`number`) or a random key (of opaque type)."""

    type: Abstract
    number: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """A container of parts."""

    kind: type
    keys: tuple[object, ...] | None
    parts: "tuple[Plan, ...]"


Plan: TypeAlias = KnownPart | Leaf | Many


def _visible(value: object, sees: Sees) -> bool:
    if isinstance(value, Frozen):
        return all(_visible(part, sees) for part in value.parts)
    return not isinstance(value, TracedTensor | TracedKey) or sees(value.node)


def unify(values: list[object], sees: Sees, *, widen: bool = False) -> Plan:
    """Return the plan for frozen values of several paths (or of one, whose values are not all known outside of it).

    Args:
        values: One for each path.
        sees: Whether a node may be used where the paths meet.
        widen: A number that is the same everywhere becomes a leaf all the same.
    """
    first = values[0]
    gap = next((value for value in values if isinstance(value, Gap)), None)
    if gap is not None:
        return KnownPart(gap)
    if not (widen and kind_of(first)) and all(same(first, value) for value in values[1:]) and _visible(first, sees):
        return KnownPart(first)
    if all(isinstance(value, Tensor) or kind_of(value) for value in values):
        return _leaf(values)
    frozen = [value for value in values if isinstance(value, Frozen)]
    if len(frozen) == len(values):
        model = frozen[0]
        if all(_alike(model, value) for value in frozen):
            columns = zip(*(value.parts for value in frozen), strict=True)
            return Many(model.kind, model.keys, tuple(unify(list(column), sees) for column in columns))
    elif all(isinstance(value, Key) for value in values):
        return Leaf(OpaqueType(Key.__name__))
    return _disagreement(values)


def _alike(a: Frozen, b: Frozen) -> bool:
    return a.kind is b.kind and a.keys == b.keys and len(a.parts) == len(b.parts)


def _leaf(values: list[object]) -> Plan:
    tensors = [value for value in values if isinstance(value, Tensor) and kind_of(value) is None]
    kinds = {kind for kind in map(kind_of, values) if kind is not None}
    if not tensors:
        kind = float if float in kinds else int if int in kinds else bool
        return Leaf(Spec((), NUMBER_DTYPES[kind]), number=True)
    shape, dtype = tensors[0].shape, tensors[0].dtype
    if any(x.shape != shape or x.dtype != dtype for x in tensors):
        return _disagreement(values)
    samples: dict[type, Number] = {bool: False, int: 0, float: 0.0}
    if kinds and (shape != () or any(promote_scalar(dtype, samples[kind]) != dtype for kind in kinds)):
        return _disagreement(values)
    return Leaf(Spec(shape, dtype))


def _disagreement(values: list[object]) -> KnownPart:
    names = list(dict.fromkeys(describe(value) for value in values))
    if len(names) == 1:
        return KnownPart(Gap(f"is {names[0]}, but not the same object on every path that leads here"))
    return KnownPart(
        Gap(f"is {names[0]} on one path and {names[1]} on another; they must agree where it is used afterwards")
    )


def types_of(plan: Plan) -> list[Abstract]:
    """Return the types of its leaves, in order."""
    if isinstance(plan, Leaf):
        return [plan.type]
    return [leaf for part in plan.parts for leaf in types_of(part)] if isinstance(plan, Many) else []


class _Elements(Protocol):
    def share(self, x: object) -> None: ...


class _Heap(Protocol):
    def created(self, container: list[object] | dict[object, object]) -> None: ...


class PlanCapture(Protocol):
    """What plans ask of the capture whose nodes they take apart and put together."""

    @property
    def elements(self) -> _Elements:
        """The tensors whose elements were assigned."""

    @property
    def heap(self) -> _Heap:
        """What has changed on the running path."""

    def node_of(self, value: object) -> Node:
        """Return the node that stands for a value."""

    def value_of(self, node: Node) -> object:
        """Return what running code sees of a node."""


def extract(plan: Plan, value: object, capture: PlanCapture) -> Iterator[Node]:
    """Return the nodes of the leaves in a frozen value of one path, in the graph that is being built."""
    if isinstance(plan, Many):
        assert isinstance(value, Frozen)
        for part, inner in zip(plan.parts, value.parts, strict=True):
            yield from extract(part, inner, capture)
    elif isinstance(plan, Leaf):
        if isinstance(plan.type, Spec) and kind_of(value) is not None:
            value = number_tensor(value, plan.type.dtype)
        capture.elements.share(value)
        yield capture.node_of(value)


def rebuild(plan: Plan, nodes: Iterator[Node], capture: PlanCapture) -> object:
    """Return the value whose leaves are these nodes."""
    if isinstance(plan, KnownPart):
        return thaw(plan.value)
    if isinstance(plan, Leaf):
        value = capture.value_of(next(nodes))
        if not plan.number:
            return value
        assert isinstance(value, Tensor)
        return as_weak(value)
    parts = [rebuild(part, nodes, capture) for part in plan.parts]
    if plan.keys is not None:
        found = dict(zip(plan.keys, parts, strict=True))
        capture.heap.created(found)
        return found
    if plan.kind is list:
        capture.heap.created(parts)
        return parts
    return plan.kind(*parts) if hasattr(plan.kind, "_fields") else plan.kind(parts)
