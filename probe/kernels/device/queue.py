"""Tensors of devices, gathered and measured together; their numbers arrive in the host's memory some time later.

A gathered tensor is held until its batch is launched, so that nothing frees it, and read then. A batch is launched
when it holds much memory, and whenever `launch` is called. What somebody changes in place between the two cannot be
measured any more: its promise is broken, and who made it may ask for the next one `at_once`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ..bins import Bins
from ..cpu import STATISTICS
from ..more import NO_MORE, More
from .copies import DeviceCopies
from .counting import count_on_device
from .fetching import Fetched, fetch
from .measuring import measure_on_device, readable
from .requested import checksum_on_device, requested_on_device
from .spectrum import iterate_on_device

#: What a batch holds at most: more would keep gradients alive that the backward pass wants to free. Our choice.
_MOST_BYTES: Final = 256 << 20
_MOST_TENSORS: Final = 256


class Promise:
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


class Arrival:
    """A batch on its way to the host."""

    def __init__(self, promises: Sequence[Promise], numbers: Any, event: Any) -> None:
        self._promises, self._numbers, self._event = promises, numbers, event

    def is_there(self) -> bool:
        """Whether taking it waits for nothing."""
        return self._event is None or bool(self._event.query())

    def take(self) -> None:
        """Nothing; the promises are kept."""
        if self._event is not None:
            self._event.synchronize()
        numbers: NDArray[np.float64] = self._numbers.numpy()
        ten, place = len(STATISTICS), len(self._promises) * len(STATISTICS)
        for number, promise in enumerate(self._promises):
            promise.row = numbers[number * ten : (number + 1) * ten]
            if promise.bins is not None:
                promise.counts = numbers[place : place + promise.bins.number]
                place += promise.bins.number
            if promise.more.flags:
                asked = numbers[place : place + len(promise.more.columns)]
                promise.row = np.concatenate([promise.row, asked])
                place += asked.size


class DeviceQueue:
    """The batches of one monitor: one for each stream in whose order its tensors are read."""

    def __init__(self) -> None:
        self._batches: dict[Any, _Batch] = {}
        self._arrivals: list[Arrival | Fetched] = []

    def add(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Promise:
        """The promise of the tensor's statistics, and of its histogram where there are bins.

        Args:
            tensor: Real and dense; of a sharded one the part that lies here is read.
            more: Statistics on request.
            at_once: Whether it is read before anything that is queued from now on.
        """
        held = tensor.detach()
        held = readable(held.to_local() if hasattr(held, "to_local") else held)
        stream = torch.cuda.current_stream(held.device) if held.is_cuda else None
        batch = self._batches.setdefault(stream, _Batch(stream))
        promise = batch.add(held, bins, more)
        if at_once or batch.is_full():
            self._send(batch)
        return promise

    def checksum(self, tensor: Any) -> Any:
        """`(2,)` int64 where the tensor lies: of its words of eight bytes, and the bytes behind them as a number."""
        return checksum_on_device(tensor)

    def added(self, gradient: Any, held: Any, stride: int) -> Any:
        """`(2,)` float64 where the gradient lies: the squared norm of every such element, and how the sum's grows."""
        found = _sampled(gradient, stride)
        square = found @ found
        growth = square if held is None else square + 2.0 * (found @ _sampled(held, stride))
        return torch.stack([square, growth])

    def iterate(self, matrix: Any, vector: Any, times: int) -> tuple[Any, Any]:
        """Largest singular value and squared norm of a matrix, `(2,)`, and a vector to go on from, all there."""
        found: tuple[Any, Any] = iterate_on_device(matrix, vector, times)
        return found

    def copies(self) -> DeviceCopies:
        """Copies of tensors, to tell how far they moved."""
        return DeviceCopies()

    def fetch(self, tensor: Any) -> Fetched:
        """The promise of the tensor itself as it is now; of a sharded one the part that lies here."""
        held = tensor.detach()
        fetched = fetch(held.to_local() if hasattr(held, "to_local") else held)
        self._arrivals.append(fetched)
        return fetched

    def launch(self) -> list[Arrival | Fetched]:
        """All that was gathered is on its way; what is to arrive since the last time."""
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

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._held: list[tuple[Promise, Any, int]] = []
        self._bytes = 0

    def add(self, tensor: Any, bins: Bins | None, more: More) -> Promise:
        promise = Promise(bins, more)
        self._held.append((promise, tensor, tensor._version))
        self._bytes += tensor.numel() * tensor.element_size()
        return promise

    def is_full(self) -> bool:
        return self._bytes >= _MOST_BYTES or len(self._held) >= _MOST_TENSORS

    def send(self) -> Arrival | None:
        held, self._held, self._bytes = self._held, [], 0
        kept = []
        for promise, tensor, version in held:
            promise.is_broken = tensor._version != version
            if not promise.is_broken:
                kept.append((promise, tensor))
        if not kept:
            return None
        with self._in_order():
            rows = measure_on_device([tensor for _, tensor in kept])
            more = [part for (promise, one), row in zip(kept, rows, strict=True) for part in _beside(promise, one, row)]
            numbers, event = self._to_the_host(torch.cat([rows.reshape(-1), *more]))
        return Arrival([promise for promise, _ in kept], numbers, event)

    def _in_order(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _to_the_host(self, numbers: Any) -> tuple[Any, Any]:
        """The numbers in memory that the device writes by itself, and what tells that it has."""
        if self._stream is None:
            return numbers, None
        there = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        there.copy_(numbers, non_blocking=True)
        event = torch.cuda.Event()
        event.record(self._stream)
        return there, event


def _beside(promise: Promise, tensor: Any, row: Any) -> Iterator[Any]:
    """What was asked for beside the ten, in the order in which `Arrival` takes it."""
    if promise.bins is not None:
        yield count_on_device(tensor, row, promise.bins)
    if promise.more.flags:
        yield requested_on_device(tensor, row, promise.more)


def _sampled(tensor: Any, stride: int) -> Any:
    """`(elements,)` float64: every so many of a tensor's, of a sharded one of the part that lies here."""
    held = tensor.detach()
    held = held.to_local() if hasattr(held, "to_local") else held
    return held.reshape(-1)[::stride].to(torch.float64)
