"""Tensors of devices, gathered and measured together; their numbers arrive in the host's memory some time later.

A gathered tensor is held until its batch is launched, so that nothing frees it, and read then. A batch is launched
when it holds much memory, and whenever `launch` is called. A tensor that is changed in place between the two cannot be
measured any more: its statistics are marked broken, and the caller may request the next one `at_once`. Whole tensors
are fetched in the order of the stream, and copies on the device tell how far tensors have moved.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ..cpu import STATISTICS
from ..histogram_bins import Bins
from ..more import NO_MORE, More
from .device_statistics import checksum_on_device, counts_on_device, iterate_on_device, requested_on_device
from .measuring import READ, measure_readable, readable


class PendingTensor:
    """A tensor on its way.

    Attributes:
        array: Its values in their own shape; there is none before it is taken. 8-bit floats are float32.
    """

    array: NDArray[Any]

    def __init__(self, tensor: torch.Tensor, event: torch.cuda.Event | None) -> None:
        self._tensor, self._event = tensor, event

    def is_ready(self) -> bool:
        """Return whether `take` would not wait."""
        return self._event is None or bool(self._event.query())

    def take(self) -> None:
        """Wait for the array and set it."""
        if self._event is not None:
            self._event.synchronize()
        tensor, self._tensor = self._tensor, None
        if tensor.dtype is torch.bfloat16:
            self.array = tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            self.array = tensor.numpy()


def fetch(tensor: torch.Tensor) -> PendingTensor:
    """Fetch the tensor as it is now, whatever happens to it next.

    Args:
        tensor: Real and dense, of any shape and strides.
    """
    dense = tensor.detach()
    if dense.is_floating_point() and dense.element_size() == 1:
        dense = dense.to(torch.float32)
    if not dense.is_cuda:
        return PendingTensor(dense.clone(memory_format=torch.contiguous_format), None)
    pinned = torch.empty(dense.shape, dtype=dense.dtype, device="cpu", pin_memory=True)
    pinned.copy_(dense.contiguous(), non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(dense.device))
    return PendingTensor(pinned, event)


#: Bytes of differences in memory at a time, beside the copies. Our choice.
_DIFFERENCES: Final = 256 << 20


class DeviceCopies:
    """One copy of every tensor, taken and refreshed without waiting for the device."""

    def __init__(self) -> None:
        self._copies: list[torch.Tensor] = []
        self._addresses: list[tuple[int, int]] = []

    def fit(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether there is a copy of this shape, dtype and device for every tensor."""
        pairs = zip(tensors, self._copies, strict=False)
        return len(tensors) == len(self._copies) and all(
            (tensor.shape, tensor.dtype, tensor.device) == (copy.shape, copy.dtype, copy.device)
            for tensor, copy in pairs
        )

    def are_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether the tensors lie where the copied ones lay, unchanged since.

        What is changed through `.data` is not noticed: torch does not count it.
        """
        return _addresses_of(tensors) == self._addresses

    @torch.no_grad()
    def take(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the tensors as they are."""
        self._addresses = _addresses_of(tensors)
        if self.fit(tensors):
            torch._foreach_copy_(self._copies, [tensor.detach() for tensor in tensors])
        else:
            self._copies = [tensor.detach().clone() for tensor in tensors]

    @torch.no_grad()
    def changes(self, tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Yield how far each tensor moved since its copy, and refresh it; 16-bit floats subtract as float32."""
        self._addresses = _addresses_of(tensors)
        for start, end in _groups(tensors):
            now, before = [tensor.detach() for tensor in tensors[start:end]], self._copies[start:end]
            yield from _differences(now, before)
            torch._foreach_copy_(before, now)


def _addresses_of(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Return the address of each, and how often it was changed."""
    return [(tensor.data_ptr(), tensor._version) for tensor in tensors]


def _differences(now: Sequence[torch.Tensor], before: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield how far each tensor moved; many small 16-bit ones are joined, since each conversion is a launch."""
    dtype = now[0].dtype
    is_joined = dtype.itemsize < 4 and all(one.dtype == dtype and one.is_contiguous() for one in (*now, *before))
    if not is_joined:
        yield from torch._foreach_sub([_wide(tensor) for tensor in now], [_wide(tensor) for tensor in before])
        return
    moved = torch.cat([tensor.reshape(-1) for tensor in now]).to(torch.float32)
    moved -= torch.cat([tensor.reshape(-1) for tensor in before])
    yield from moved.split([tensor.numel() for tensor in now])


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32) if tensor.element_size() < 4 else tensor


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, int]]:
    """Yield (first, one past the last) of runs of tensors that are small together."""
    start, size_bytes = 0, 0
    for number, tensor in enumerate(tensors):
        size_bytes += tensor.numel() * max(tensor.element_size(), 4)
        if size_bytes >= _DIFFERENCES:
            yield start, number + 1
            start, size_bytes = number + 1, 0
    if start < len(tensors):
        yield start, len(tensors)


#: Tensors and bytes that wait for one launch, which takes the host half a millisecond; bytes also by the share of the
#: device's memory that they hold back meanwhile. Our choices.
_MOST_TENSORS: Final = 1024
_MOST_BYTES: Final = 1 << 30
_MEMORY_SHARE: Final = 64
#: What the kernels read as it is, also where it is a leaf of the graph.
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
#: Number of the device and handle of the stream; None for the processor itself.
_StreamKey: TypeAlias = tuple[int, int] | None


class PendingStatistics:
    """The numbers of one tensor.

    Attributes:
        row: `(10 and those on request,)` once they are there; None before, and of a tensor that was changed before it
            was read.
        counts: `(bins,)` of its histogram, if that was asked for.
        is_broken: Whether it was changed.
    """

    __slots__ = ("bins", "counts", "is_broken", "more", "row")

    def __init__(self, bins: Bins | None, more: More) -> None:
        self.bins, self.more = bins, more
        self.row: NDArray[np.float64] | None = None
        self.counts: NDArray[np.float64] | None = None
        self.is_broken = False


class PendingBatch:
    """A batch on its way to the host."""

    def __init__(
        self, pending: Sequence[PendingStatistics], numbers: torch.Tensor, event: torch.cuda.Event | None
    ) -> None:
        self._pending, self._numbers, self._event = pending, numbers, event

    def is_ready(self) -> bool:
        """Return whether `take` would not wait."""
        return self._event is None or bool(self._event.query())

    def take(self) -> None:
        """Wait for the numbers and hand them to the pending statistics."""
        if self._event is not None:
            self._event.synchronize()
        numbers: NDArray[np.float64] = self._numbers.numpy()
        start = len(self._pending) * len(STATISTICS)
        rows = numbers[:start].reshape(-1, len(STATISTICS))
        for pending, row in zip(self._pending, rows, strict=True):
            pending.row = row
            if pending.bins is not None:
                pending.counts = numbers[start : start + pending.bins.number]
                start += pending.bins.number
            if pending.more.flags:
                requested = numbers[start : start + len(pending.more.columns)]
                pending.row = np.concatenate([pending.row, requested])
                start += requested.size


class PendingTable:
    """The numbers of many tensors that were read at once.

    Attributes:
        rows: `(n, 10 and those on request)` once they are there, in the order of the tensors; None before.
    """

    def __init__(self, size: int, more: More) -> None:
        self._size, self._more = size, more
        self._parts: list[tuple[list[int], PendingTensor]] = []
        self.rows: NDArray[np.float64] | None = None

    def add(self, places: list[int], numbers: PendingTensor) -> None:
        """Take `(k, 10 and those on request)` as the rows at these places."""
        self._parts.append((places, numbers))

    def is_ready(self) -> bool:
        """Return whether `take` would not wait."""
        return all(numbers.is_ready() for _, numbers in self._parts)

    def take(self) -> None:
        """Wait for the numbers."""
        rows = np.full((self._size, len(STATISTICS) + len(self._more.columns)), np.nan)
        for places, numbers in self._parts:
            numbers.take()
            rows[places] = numbers.array
        self.rows = rows


class DeviceQueue:
    """The batches of one monitor: one for each stream in whose order its tensors are read."""

    def __init__(self) -> None:
        self._batches: dict[_StreamKey, _Batch] = {}
        self._arrivals: list[PendingBatch | PendingTable | PendingTensor] = []

    def add(
        self, tensor: torch.Tensor, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False
    ) -> PendingStatistics:
        """Queue the tensor's statistics, and its histogram where there are bins; return them as pending.

        Args:
            tensor: Real and dense; of a sharded one the part that lies here is read.
            more: Statistics on request.
            at_once: Whether it is read before anything that is queued from now on.
        """
        part = _as_read(tensor.detach())  # it waits, and must not keep the graph alive
        batch, pending = self._batch_of(part), PendingStatistics(bins, more)
        if batch.add(pending, part) or at_once:
            self._send(batch)
        return pending

    def add_all(self, tensors: Iterable[torch.Tensor], size: int, more: More = NO_MORE) -> PendingTable:
        """Read many tensors as they are now, with a few launches; return their statistics as pending.

        Much less is done on the host for each of them than by `add`.

        Args:
            tensors: As `add` takes them. One that is made as it is asked for is held for no longer than its launch.
            size: How many there are.
            more: Statistics on request.
        """
        table, held_bytes = PendingTable(size, more), 0
        places: list[int] = []
        parts: list[torch.Tensor] = []
        for place, tensor in enumerate(tensors):
            part = _as_read(tensor)
            if parts and (held_bytes >= _MOST_BYTES or part.device != parts[0].device):
                table.add(places, _read(parts, more))
                places, parts, held_bytes = [], [], 0
            places.append(place)
            parts.append(part)
            held_bytes += part.nbytes
        if parts:
            table.add(places, _read(parts, more))
        self._arrivals.append(table)
        return table

    def _batch_of(self, part: torch.Tensor) -> "_Batch":
        """Return the batch of the stream that computes on the tensor's device now.

        The stream is asked for by its handle: to make torch's object of it takes longer than all the rest of `add`.
        """
        index = part.get_device()
        key = None if index < 0 else (index, torch._C._cuda_getCurrentRawStream(index))
        batch = self._batches.get(key)
        if batch is None:
            stream = None if key is None else torch.cuda.current_stream(part.device)
            batch = self._batches[key] = _Batch(stream)
        return batch

    def checksum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `(2,)` int64 on the device: the mix of the eight-byte words, and the bytes behind them as a number."""
        return checksum_on_device(tensor)

    def added(self, gradient: torch.Tensor, accumulated: torch.Tensor, stride: int) -> torch.Tensor:
        """Return `(2,)` float64 on the device: the gradient's sampled squared norm, and how the sum's grows."""
        found = _sampled(gradient, stride)
        square = found @ found
        growth = square if accumulated is None else square + 2.0 * (found @ _sampled(accumulated, stride))
        return torch.stack([square, growth])

    def iterate(self, matrix: torch.Tensor, vector: torch.Tensor, times: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return singular value and squared norm of a matrix, `(2,)`, and the vector to continue from, all on the
        device."""
        found: tuple[torch.Tensor, torch.Tensor] = iterate_on_device(matrix, vector, times)
        return found

    def copies(self) -> DeviceCopies:
        """Make copies of tensors, to tell how far they moved."""
        return DeviceCopies()

    def fetch(self, tensor: torch.Tensor) -> PendingTensor:
        """Fetch the tensor as it is now; of a sharded one the local part."""
        part = tensor.detach()
        fetched = fetch(part.to_local() if hasattr(part, "to_local") else part)
        self._arrivals.append(fetched)
        return fetched

    def launch(self) -> list[PendingBatch | PendingTable | PendingTensor]:
        """Launch all that was gathered; return what is to arrive since the last time."""
        for batch in self._batches.values():
            self._send(batch)
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def _send(self, batch: "_Batch") -> None:
        arrival = batch.send()
        if arrival is not None:
            self._arrivals.append(arrival)


class _Batch:
    """The tensors that wait for the next launch on one stream; None is the processor itself."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        self._stream = stream
        self._queued: list[tuple[PendingStatistics, torch.Tensor, int]] = []
        self._bytes = 0
        self._most_bytes = _MOST_BYTES if stream is None else _share_of(stream.device)

    def add(self, pending: PendingStatistics, tensor: torch.Tensor) -> bool:
        """Let the tensor wait for the next launch; return whether that is due."""
        queued = self._queued
        queued.append((pending, tensor, tensor._version))
        self._bytes += tensor.nbytes
        return self._bytes >= self._most_bytes or len(queued) >= _MOST_TENSORS

    def send(self) -> PendingBatch | None:
        queued, self._queued, self._bytes = self._queued, [], 0
        kept: list[PendingStatistics] = []
        tensors: list[torch.Tensor] = []
        for pending, tensor, version in queued:
            if tensor._version != version:
                pending.is_broken = True
            else:
                kept.append(pending)
                tensors.append(tensor)
        if not kept:
            return None
        with self._in_order():
            rows = measure_readable(tensors)
            more = _beside(kept, tensors, rows)
            numbers, event = self._to_the_host(torch.cat([rows.reshape(-1), *more]) if more else rows.reshape(-1))
        return PendingBatch(kept, numbers, event)

    def _in_order(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _to_the_host(self, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the numbers to pinned memory without waiting; return it with the event of its completion."""
        if self._stream is None:
            return numbers, None
        pinned = torch.empty(numbers.shape, dtype=numbers.dtype, device="cpu", pin_memory=True)
        pinned.copy_(numbers, non_blocking=True)
        event = torch.cuda.Event()
        event.record(self._stream)
        return pinned, event


def _share_of(device: torch.device) -> int:
    """Return the bytes that may wait for one launch on the device."""
    return min(_MOST_BYTES, int(torch.cuda.get_device_properties(device).total_memory) // _MEMORY_SHARE)


def _as_read(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of the tensor that lies here as the kernels read it; a plain one is returned itself."""
    if type(tensor) in _PLAIN and tensor.dtype in READ and tensor.is_contiguous():
        return tensor
    part = tensor.detach()
    return readable(part.to_local() if hasattr(part, "to_local") else part)


def _read(tensors: Sequence[torch.Tensor], more: More) -> PendingTensor:
    """Request `(n, 10 and those on request)` of tensors of one device."""
    device = tensors[0].device
    with torch.no_grad(), torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        rows = measure_readable(tensors)
        if more.flags:
            pairs = zip(tensors, rows, strict=True)
            rows = torch.cat([rows, torch.stack([requested_on_device(tensor, row, more) for tensor, row in pairs])], 1)
        return fetch(rows)


def _beside(
    kept: Sequence[PendingStatistics], tensors: Sequence[torch.Tensor], rows: torch.Tensor
) -> list[torch.Tensor]:
    """Return what was requested beside the ten, in the order in which `PendingBatch` takes it."""
    of_kind: dict[Bins, list[int]] = {}
    for number, pending in enumerate(kept):
        if pending.bins is not None:
            of_kind.setdefault(pending.bins, []).append(number)
    counts: dict[int, torch.Tensor] = {}
    for bins, numbers in of_kind.items():
        chosen = rows if len(numbers) == len(kept) else torch.stack([rows[number] for number in numbers])
        counts |= zip(numbers, counts_on_device([tensors[number] for number in numbers], chosen, bins), strict=True)
    found = []
    for number, (pending, tensor) in enumerate(zip(kept, tensors, strict=True)):
        if number in counts:
            found.append(counts[number])
        if pending.more.flags:
            found.append(requested_on_device(tensor, rows[number], pending.more))
    return found


def _sampled(tensor: torch.Tensor, stride: int) -> torch.Tensor:
    """Return `(elements,)` float64: every `stride`-th of a tensor's, of a sharded one of the local part."""
    part = tensor.detach()
    part = part.to_local() if hasattr(part, "to_local") else part
    return part.reshape(-1)[::stride].to(torch.float64)
