"""Records that the store has refused, in the order of their steps: in memory first, then in a local file.

The file is anonymous and holds pickled batches of this process; nobody else can read or change it, and it is gone with
the process. It is in the folder for temporary files, because the disk of the store may be the one that is full.
"""

import pickle
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from ..errors import StoreError
from ..records import StepRecord
from ..run_info import Structure

#: Bytes of records that wait in memory, and then in the file (our choice): some minutes of a model of 1000 tensors.
MEMORY_BYTES, FILE_BYTES = 64 << 20, 1 << 30
#: Most records of one batch: more would hold one transaction for long.
MOST_RECORDS = 64
#: About what a record, a scalar, an event and a structure take beside the arrays.
_RECORD_BYTES, _SCALAR_BYTES, _EVENT_BYTES, _MODULE_BYTES = 500, 100, 1000, 500


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written in one transaction: records and observations of earlier ones, or a structure."""

    records: tuple[StepRecord, ...] = ()
    earlier: tuple[StepRecord, ...] = ()
    structure: Structure | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return sum(map(item_bytes, (*self.records, *self.earlier))) + (
            0 if self.structure is None else item_bytes(self.structure)
        )


def in_batches(records: Sequence[StepRecord], earlier: Sequence[StepRecord]) -> Iterator[Batch]:
    """Yield the records in batches of bounded length; `earlier` comes with the last."""
    for start in range(0, len(records), MOST_RECORDS):
        is_last = start + MOST_RECORDS >= len(records)
        yield Batch(tuple(records[start : start + MOST_RECORDS]), tuple(earlier) if is_last else ())
    if earlier and not records:
        yield Batch(earlier=tuple(earlier))


def item_bytes(item: StepRecord | Structure) -> int:
    """Return about how many bytes a record or a structure takes in memory."""
    if isinstance(item, Structure):
        return _MODULE_BYTES * (1 + len(item.modules) + len(item.parameters))
    return (
        _RECORD_BYTES
        + sum(block.values.nbytes for block in item.blocks)
        + sum(histogram.edges.nbytes + histogram.counts.nbytes for histogram in item.histograms)
        + _SCALAR_BYTES * len(item.scalars)
        + _EVENT_BYTES * len(item.events)
        + sum(event.attachment.nbytes for event in item.events if event.attachment is not None)
        + (0 if item.beside is None else item_bytes(item.beside))
    )


@dataclass(slots=True)
class _Entry:
    """A batch that waits: itself, or its place in the file; and the steps of its records."""

    steps: tuple[int, ...]
    size: int
    batch: Batch | None = None
    offset: int = 0


class Backlog:
    """A queue of batches, oldest first; used by the writer thread alone.

    Args:
        memory_bytes: What may wait in memory; a batch that finds the backlog empty is always taken.
        file_bytes: Size of the file of what came after that; 0 for none.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES, file_bytes: int = FILE_BYTES) -> None:
        if memory_bytes < 0 or file_bytes < 0:
            raise StoreError(f"the backlog expects sizes of 0 or more, got {memory_bytes} and {file_bytes} bytes")
        self._memory_bytes, self._file_bytes = memory_bytes, file_bytes
        self._entries: deque[_Entry] = deque()
        self._used = 0  # bytes in memory
        self._file: IO[bytes] | None = None
        self._in_file = 0  # entries in the file
        self._end = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def append(self, batch: Batch) -> bool:
        """Add the newest batch; return False when there is no room for it. A structure is always taken."""
        entry = _Entry(tuple(int(record.step) for record in batch.records), batch.size, batch)
        fits = not self._in_file and self._used + entry.size <= self._memory_bytes
        if fits or not self._entries:
            self._used += entry.size
        elif self._append_to_file(entry, batch):
            self._in_file += 1
        elif batch.structure is not None:
            self._used += entry.size
        else:
            return False
        self._entries.append(entry)
        return True

    def oldest(self) -> Batch:
        """Return the oldest batch; raise `OSError` or `pickle.UnpicklingError` if the file cannot be read."""
        entry = self._entries[0]
        if entry.batch is None:
            assert self._file is not None
            self._file.seek(entry.offset)
            entry.batch = pickle.loads(self._file.read(entry.size))  # written by this process alone
            assert entry.batch is not None
            self._leave_file()
            entry.size = entry.batch.size
            self._used += entry.size
        return entry.batch

    def oldest_steps(self) -> tuple[int, ...]:
        """Return the steps of the records of the oldest batch."""
        return self._entries[0].steps

    def first_step(self) -> int | None:
        """Return the first step that waits; None when no record does. Another thread may ask."""
        return next((entry.steps[0] for entry in tuple(self._entries) if entry.steps), None)

    def drop_oldest(self) -> None:
        """Remove the oldest batch: it was written, or is lost."""
        entry = self._entries.popleft()
        if entry.batch is None:
            self._leave_file()
        else:
            self._used -= entry.size

    def _append_to_file(self, entry: _Entry, batch: Batch) -> bool:
        """Write the batch to the end of the file; return False when there is no room, or it cannot be pickled."""
        try:
            data = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
            if self._end + len(data) > self._file_bytes:
                return False
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="mindscope-backlog-", buffering=0)  # noqa: SIM115
            self._file.seek(self._end)
            if self._file.write(data) < len(data):
                return False
        except (OSError, pickle.PicklingError, TypeError, AttributeError):
            return False
        entry.batch, entry.offset, entry.size = None, self._end, len(data)
        self._end += len(data)
        return True

    def _leave_file(self) -> None:
        """Count an entry as no longer in the file, which shrinks only when all of it was read."""
        self._in_file -= 1
        if not self._in_file and self._file is not None:
            self._file.close()
            self._file, self._end = None, 0
