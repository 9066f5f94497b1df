"""Where intermediate arrays lie: one block of memory, in which arrays that are never alive together share a place."""

from dataclasses import dataclass, field

from ...shape import Shape

__all__ = ["ALIGNMENT", "Buffer", "MemoryPlan", "plan_memory"]

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
    dtype: object
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
    """Offsets for the planned buffers, largest first, each in the smallest gap that is free during its life.

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
