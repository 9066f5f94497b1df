"""Where intermediate arrays lie: who uses whose memory last, and one block in which arrays share places."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ...dtype import Dtype
from ...ir import Apply, Node, TupleType
from ...specs import Shape
from ...tensor import Array

__all__ = [
    "ALIGNMENT",
    "Buffer",
    "Lifetimes",
    "MemoryPlan",
    "Root",
    "Value",
    "have_same_owner",
    "is_multipliable",
    "is_whole",
    "layout_of",
    "lies_in_any",
    "owners_of",
    "plan_memory",
    "proxy",
]

#: Cache line, and widest vector register of the machines we run on.
ALIGNMENT = 64


@dataclass(eq=False)
class Buffer:
    """Memory for one array.

    Attributes:
        name: In the generated code.
        shape: Of the array.
        dtype: Its NumPy dtype.
        first: Number of the step that fills it.
        last: Number of the last step that reads it.
        kind: "planned" in the common block, "output" owned by the caller, "given" by the caller beforehand.
        offset: In the common block, in bytes.
        purpose: What is computed into it, for the reader.
    """

    name: str
    shape: Shape
    dtype: Dtype
    nbytes: int
    first: int
    last: int
    kind: str = "planned"
    offset: int = 0
    purpose: str = ""


@dataclass(frozen=True)
class MemoryPlan:
    """The common block of an executable; printed, a table of what lies where and when.

    Attributes:
        buffers: All that lie in it.
        size: Bytes of the block.
        total: Bytes that the arrays would take one after the other.
        outputs: Bytes allocated at every call, for the results.
    """

    buffers: list[Buffer]
    size: int
    outputs: int
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(buffer.nbytes for buffer in self.buffers))

    def __str__(self) -> str:
        head = (
            f"{len(self.buffers)} arrays of {_bytes(self.total)} in a block of {_bytes(self.size)}; "
            f"results {_bytes(self.outputs)}"
        )
        lines = [f"{'offset':>12} {'bytes':>12} {'steps':>11}  shape and purpose"]
        ordered = sorted(self.buffers, key=lambda b: (b.first, b.offset))
        lines += [
            f"{b.offset:12d} {b.nbytes:12d} {b.first:5d}-{b.last:<5d}  {b.dtype}{list(b.shape)} {b.purpose}"
            for b in ordered
        ]
        return "\n".join([head, *lines])


def plan_memory(buffers: list[Buffer], outputs: int) -> MemoryPlan:
    """Return the offsets of the planned buffers, largest first, each in the smallest gap that is free during its life.

    Reference:
        Pisarchyk and Lee 2020, arXiv:2001.03288, greedy by size for offset calculation.
    """
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-b.nbytes, b.first)):
        neighbours = [b for b in placed if b.first <= buffer.last and buffer.first <= b.last]
        buffer.offset = _best_gap(sorted(neighbours, key=lambda b: b.offset), buffer.nbytes)
        placed.append(buffer)
    size = max((b.offset + _aligned(b.nbytes) for b in placed), default=0)
    return MemoryPlan(buffers, size, outputs)


def _best_gap(neighbours: list[Buffer], nbytes: int) -> int:
    best, best_room, end = -1, 0, 0
    for other in neighbours:
        room = other.offset - end
        if room >= _aligned(nbytes) and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, other.offset + _aligned(other.nbytes))
    return end if best < 0 else best


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One value of the generated code.

    Attributes:
        name: The expression that gives it.
        array: An array of its shape, dtype and strides, of arbitrary content; None for what is no array.
        owners: The buffers it lies in: they live as long as somebody reads it.
        is_static: Whether it is the same object at every call: in planned memory, a weight, a constant.
        parts: Of a tuple.
    """

    name: str
    array: Array | None = None
    owners: tuple[Buffer, ...] = ()
    is_static: bool = False
    parts: "tuple[Value, ...] | None" = None


def proxy(shape: Shape, dtype: Dtype) -> Array:
    """Return an array to look at, not into: its memory is never touched, so a large one costs nothing."""
    return np.empty(shape, dtype)


def is_whole(value: Value, buffer: Buffer) -> bool:
    """Return whether the value is all of the buffer, in order."""
    array = value.array
    return array is not None and array.flags.c_contiguous and array.nbytes == buffer.nbytes


def owners_of(values: Sequence[Value]) -> tuple[Buffer, ...]:
    """Return all memory that the values lie in."""
    found = [owner for x in values for owner in (*x.owners, *owners_of(x.parts or ()))]
    return tuple(dict.fromkeys(found))


def is_multipliable(array: Array) -> bool:
    """Return whether BLAS takes the matrices of a stack as they are: rows or columns contiguous."""
    if array.ndim < 2 or not array.size:
        return True
    item = array.itemsize
    rows, columns = array.strides[-2:]
    return bool(
        (columns == item and rows >= item * array.shape[-1])
        or (rows == item and columns >= item * array.shape[-2])
        or 1 in array.shape[-2:]
    )


def layout_of(value: Value) -> tuple[str, int]:
    """Return the dtype and the number of axes of an array, as a kernel is compiled for."""
    assert value.array is not None
    return value.array.dtype.name, value.array.ndim


def have_same_owner(a: Value, b: Value) -> bool:
    """Return whether a buffer holds parts of both."""
    return any(owner in b.owners for owner in a.owners)


def lies_in_any(value: Value, others: Iterable[Value]) -> bool:
    """Return whether the array of the value may share memory with one of the others."""
    return value.array is not None and any(
        other.array is not None and np.may_share_memory(value.array, other.array) for other in others
    )


#: A node that has memory of its own, and which of its outputs.
Root: TypeAlias = tuple[Node, int]


class Lifetimes:
    """The place in the order at which each node's memory is read for the last time.

    Args:
        order: The applications in the order in which they are computed.
        result: What is returned: alive to the end.
        is_view: Whether the result of an application may lie in the memory of its arguments.
    """

    def __init__(self, order: Sequence[Apply], result: Node, is_view: Callable[[Apply], bool]) -> None:
        self._roots: dict[Node, tuple[Root, ...]] = {}
        self._last: dict[Root, int] = {}
        self.end = len(order)
        for place, node in enumerate(order):
            # The value of an assigned weight is written at the very end.
            last = self.end if node.applies("assign") else place
            for x in node.arguments:
                for root in self.roots(x):
                    self._last[root] = max(last, self._last.get(root, -1))
            if node.applies("tuple_getitem"):
                self._roots[node] = self._part(node)
            elif is_view(node):
                held = node.arguments[:1] if node.applies("depend") else node.arguments
                seen = [root for x in held for root in self.roots(x)]
                self._roots[node] = tuple(dict.fromkeys([*self.roots(node), *seen]))
        for root in self.roots(result):
            self._last[root] = self.end

    def _part(self, node: Apply) -> tuple[Root, ...]:
        whole = node.arguments[0]
        own = (whole, node.attributes["index"])
        known = self.roots(whole)
        others = [root for root in known if root[0] is not whole]
        return tuple(dict.fromkeys([own, *others]))

    def roots(self, node: Node) -> tuple[Root, ...]:
        """Return the memory that the node may lie in."""
        if node in self._roots:
            return self._roots[node]
        count = len(node.type.elements) if isinstance(node.type, TupleType) else 1
        return tuple((node, index) for index in range(count))

    def dies(self, node: Node, place: int) -> bool:
        """Return whether nobody reads the memory of the node after this place."""
        return all(self._last.get(root, -1) <= place for root in self.roots(node))
