"""Packed blocks one behind the other: what is written together lies together, and is cut up only where it must be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Some packed blocks.

    Args:
        data: Their bytes.
        lengths: `(blocks,)` uint32, how many of them each has.
    """

    data: bytes
    lengths: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, at: slice) -> "Packed":
        begin, end, _ = at.indices(len(self))
        if end - begin == len(self):
            return self
        ends = self._ends()
        return Packed(self.data[ends[begin] : ends[max(begin, end)]], self.lengths[begin:end])

    @staticmethod
    def of(blocks: Sequence[bytes]) -> "Packed":
        """Blocks that lie apart."""
        return Packed(b"".join(blocks), np.array([len(one) for one in blocks], dtype=np.uint32))

    @staticmethod
    def joined(parts: Sequence["Packed"]) -> "Packed":
        """All blocks of all parts."""
        if len(parts) == 1:
            return parts[0]
        lengths = [part.lengths for part in parts]
        return Packed(b"".join(part.data for part in parts), np.concatenate(lengths) if parts else _NOTHING)

    def apart(self) -> list[bytes]:
        """The blocks one by one."""
        return [self.data[begin:end] for begin, end in pairwise(self._ends())]

    def tables(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Blocks of one length that follow each other, `(blocks, length)`, and the place of the first of them."""
        changes = (np.flatnonzero(self.lengths[1:] != self.lengths[:-1]) + 1).tolist()
        low = 0
        for begin, end in pairwise([0, *changes, len(self)] if len(self) else ()):
            length = int(self.lengths[begin])
            high = low + (end - begin) * length
            yield begin, np.frombuffer(self.data, np.uint8, high - low, low).reshape(end - begin, length)
            low = high

    def _ends(self) -> list[int]:
        ends: list[int] = [0, *np.cumsum(self.lengths, dtype=np.int64).tolist()]
        return ends


_NOTHING = np.empty(0, np.uint32)
