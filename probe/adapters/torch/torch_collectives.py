"""The collectives of torch.distributed: inputs, outputs and waiting times of every process."""

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import update_wrapper
from typing import Final, Protocol

import numpy as np
import torch
import torch.distributed as distributed

from ....storage.transfers import TRANSFERS, transfer_site
from ...aside import is_checking
from ...collectors.hook_collectors import COSTS
from ...errors import CollectiveRefused
from ...kernels import STATISTICS, measure
from ...process_ranks import group_name
from ...recording.recorder import Recorder
from ...recording.row_buffers import Row
from ...tensor_access import Unsupported
from ...user_line import user_line
from ...warning_places import skipped_by_warnings
from .torch_collective_ring import TORCH_FILES, NotedCall, peer_of, tensors_of
from .torch_tensors import place_of, remote

#: Inputs and outputs of every operation, by the names of its arguments.
_OPERATIONS: Final = {
    "all_reduce": (("tensor",), ("tensor",)),
    "all_gather": (("tensor",), ("tensor_list",)),
    "all_gather_into_tensor": (("input_tensor",), ("output_tensor",)),
    "all_gather_single": (("input_tensor",), ("output_tensor",)),
    "reduce_scatter": (("input_list",), ("output",)),
    "reduce_scatter_tensor": (("input",), ("output",)),
    "reduce_scatter_single": (("input",), ("output",)),
    "broadcast": (("tensor",), ("tensor",)),
    "all_to_all": (("input_tensor_list",), ("output_tensor_list",)),
    "all_to_all_single": (("input",), ("output",)),
    "reduce": (("tensor",), ("tensor",)),
    "gather": (("tensor",), ("gather_list",)),
    "scatter": (("scatter_list",), ("tensor",)),
    "send": (("tensor",), ()),
    "recv": ((), ("tensor",)),
    "isend": (("tensor",), ()),
    "irecv": ((), ("tensor",)),
    "batch_isend_irecv": ((), ()),  # a list of the two operations above
    "barrier": ((), ()),
}
#: What a call returns that has not ended.
_PENDING: Final = (distributed.Work, list)
_MODULES: Final = (distributed, distributed.distributed_c10d)

_originals: list[tuple[object, str, object, object]] = []
_inside = threading.local()


class CollectiveCall:
    """One call in progress.

    Attributes:
        began: When.
        number: Of the calls at this site in the micro-step.
        size_bytes: What it gives, in all.
    """

    __slots__ = ("began", "number", "site", "size_bytes")

    def __init__(self, site: str, number: int, size_bytes: int) -> None:
        self.site, self.number, self.size_bytes = site, number, size_bytes
        self.began = time.perf_counter()


class CollectiveListener(Protocol):
    """A listener to every collective call of the process."""

    def begins(
        self, operation: str, bound: Mapping[str, object], input_names: tuple[str, ...]
    ) -> CollectiveCall | None:
        """Note a call whose inputs are the arguments named `input_names`; return None to ignore its end."""

    def ends(
        self, call: CollectiveCall, bound: Mapping[str, object], output_names: tuple[str, ...], waited_s: float
    ) -> None:
        """Note the end of the call, or of the wait for it; the arguments named `output_names` hold the outputs."""


_listeners: list[CollectiveListener] = []


def add_collective_listener(listener: CollectiveListener) -> None:
    """Report every call to the listener from now on."""
    _listeners.append(listener)
    if len(_listeners) == 1:
        for name in _OPERATIONS:
            if hasattr(distributed, name):
                _replace(name)


def remove_collective_listener(listener: CollectiveListener) -> None:
    """Remove the listener; after the last one, restore torch.distributed."""
    if listener in _listeners:
        _listeners.remove(listener)
    while not _listeners and _originals:
        owner, name, original, replacement = _originals.pop()
        if getattr(owner, name) is replacement:
            setattr(owner, name, original)


class _WatchedCall:
    """A call in progress, as the listeners and the ring know it."""

    __slots__ = ("_bound", "_heard", "_is_reported", "_noted", "_output_names")

    def __init__(self, name: str, bound: Mapping[str, object]) -> None:
        input_names, self._output_names = _OPERATIONS[name]
        self._bound, self._is_reported = bound, False
        heard = ((listener, listener.begins(name, bound, input_names)) for listener in tuple(_listeners))
        self._heard = [(listener, call) for listener, call in heard if call is not None]
        self._noted = NotedCall(name, bound, input_names or self._output_names)

    @property
    def is_noted(self) -> bool:
        """Whether anybody wants to know its end."""
        return bool(self._heard or self._noted.slots)

    def returns(self, *, is_pending: bool) -> None:
        """Note that the call has returned."""
        self._noted.ends("enqueued" if is_pending else "completed")

    def waits(self) -> None:
        """Note that a thread waits for it."""
        self._noted.waits()

    def fails(self) -> None:
        """Note that it has raised an error."""
        self._noted.ends("failed")

    def done(self, waited_s: float | None = None) -> None:
        """Note that its outputs are there; by default it has waited since it began."""
        if self._is_reported:
            return
        self._is_reported = True
        for listener, call in self._heard:
            waited = time.perf_counter() - call.began if waited_s is None else waited_s
            listener.ends(call, self._bound, self._output_names, waited)

    def is_waited_for(self, waited_s: float) -> None:
        """Note that a wait for it has ended."""
        self._noted.ends("completed")
        self.done(waited_s)


class _WatchedWork(distributed.Work):  # type: ignore[misc]  # torch's types are not looked at
    """A `Work` that records when it is waited for; everything else is the original's.

    Args:
        calls: That it is the work of: of a batch, a backend may return one for all.
    """

    def __init__(self, work: distributed.Work, calls: Sequence[_WatchedCall]) -> None:
        super().__init__()
        self._work, self._calls = work, calls

    def wait(self, *arguments: object, **options: object) -> object:
        """Wait for the original and return its result."""
        began = time.perf_counter()
        for call in self._calls:
            call.waits()
        try:
            result = self._work.wait(*arguments, **options)
        except BaseException:
            for call in self._calls:
                call.fails()
            raise
        waited_s = (time.perf_counter() - began) / len(self._calls)
        for call in self._calls:
            call.is_waited_for(waited_s)
        return result

    def __getattribute__(self, name: str) -> object:
        if name in ("wait", "_work", "_calls", "__class__", "__init__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_work"), name)


class _WatchedCollective:
    """A function of torch.distributed that reports its calls; equal to the original, since torch compares `isend`."""

    def __init__(self, name: str, original: Callable[..., object]) -> None:
        self._name, self._original = name, original
        self._signature = inspect.signature(original)
        update_wrapper(self, original)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._original

    def __hash__(self) -> int:
        return hash(self._original)

    @skipped_by_warnings
    def __call__(self, *arguments: object, **options: object) -> object:
        if is_checking():
            raise CollectiveRefused(f"{self._name}: a check of one rank alone makes no collective")
        if torch.compiler.is_compiling() or getattr(_inside, "is_busy", False):
            return self._original(*arguments, **self._as_meant(options))
        try:
            bound = self._signature.bind(*arguments, **options).arguments
        except TypeError:
            return self._original(*arguments, **options)  # the original raises with the right message
        if _is_collecting(bound.get("group")):
            return self._original(*arguments, **options)
        _inside.is_busy = True
        try:
            return self._watched(bound, arguments, options)
        finally:
            _inside.is_busy = False

    def _as_meant(self, options: dict[str, object]) -> dict[str, object]:
        """Return the options; name the peer of `isend` as `isend` does when a batch took it for `irecv`."""
        if self._name == "isend" and "group_src" in options:
            return {("group_dst" if name == "group_src" else name): value for name, value in options.items()}
        return options

    @skipped_by_warnings
    def _watched(
        self, bound: Mapping[str, object], arguments: tuple[object, ...], options: dict[str, object]
    ) -> object:
        calls = [_WatchedCall(*call) for call in self._calls(bound)]
        try:
            result = self._original(*arguments, **options)
        except BaseException:
            for call in calls:
                call.fails()
            raise
        for call in calls:
            call.returns(is_pending=isinstance(result, _PENDING))
        if not any(call.is_noted for call in calls):
            return result
        if isinstance(result, distributed.Work):
            return _WatchedWork(result, calls)
        if isinstance(result, list) and result:
            return _watched_works(result, calls)
        for call in calls:
            call.done()
        return result

    def _calls(self, bound: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
        """Return name and arguments of each call that this one makes: of a batch, of each send and receive."""
        return _transfers(bound) if self._name == "batch_isend_irecv" else ((self._name, bound),)


def _watched_works(works: Sequence[distributed.Work], calls: Sequence[_WatchedCall]) -> list[distributed.Work]:
    """Return the works of a batch: one for each call, or the last of fewer, waiting for which means waiting for all."""
    if len(works) == len(calls):
        return [_WatchedWork(work, [call]) for work, call in zip(works, calls, strict=True)]
    *others, last = works
    return [*others, _WatchedWork(last, calls)]


def _replace(name: str) -> None:
    """Replace the function in both modules, but `isend` and `irecv` not in the inner one: batches compare with that."""
    original = getattr(distributed, name)
    replacement = _WatchedCollective(name, original)
    for module in _MODULES[:1] if name in ("isend", "irecv") else _MODULES:
        if getattr(module, name, None) is original:
            _originals.append((module, name, original, replacement))
            setattr(module, name, replacement)


def _is_collecting(group: object) -> bool:
    """Return whether the group's calls are only collected now and made together later."""
    world = distributed.distributed_c10d
    return (group or world._get_default_group()) in world._world.pg_coalesce_state


def _transfers(bound: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """Return name and arguments of each send and receive of a batch."""
    operations = bound.get("p2p_op_list")
    found: list[tuple[str, Mapping[str, object]]] = []
    for operation in operations if isinstance(operations, list | tuple) else ():
        name = getattr(operation.op, "__name__", "")
        if name in TRANSFERS:
            peer = {"dst" if name == "isend" else "src": operation.peer}
            found.append((name, {"tensor": operation.tensor, "group": operation.group, "tag": operation.tag, **peer}))
    return found


_COLUMNS: Final = len(STATISTICS)


class CommunicationHooks:
    """Records the collectives of this process into one recorder, from `attach` to `remove`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls: dict[str, tuple[int, int]] = {}
        self._rows: dict[tuple[str, str, int], Row] = {}
        self._recorded_lines: set[tuple[str, str, int]] = set()

    def attach(self) -> None:
        """Record calls from now on."""
        add_collective_listener(self)

    def remove(self) -> None:
        """Stop recording; after the last listener, restore torch.distributed."""
        remove_collective_listener(self)

    def begins(
        self, operation: str, bound: Mapping[str, object], input_names: tuple[str, ...]
    ) -> CollectiveCall | None:
        """Record the inputs of the call that begins now; return None where the subject is not due."""
        recorder, current = self._recorder, self._recorder.current
        if not current.sees_communication:
            return None
        try:
            site = _site_of(operation, bound)
            stamp, number = self._calls.get(site, (-1, -1))
            number = number + 1 if stamp == current.stamp else 0
            self._calls[site] = (current.stamp, number)
            self._record_line(site)
            call = CollectiveCall(
                site, number, sum(x.numel() * x.element_size() for x in tensors_of(bound, input_names))
            )
            for path, tensor in _numbered(bound, input_names):
                self._fill("communication/before", site + path, number, tensor)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("communication", error)
            return None
        return call

    def ends(
        self, call: CollectiveCall, bound: Mapping[str, object], output_names: tuple[str, ...], waited_s: float
    ) -> None:
        """Record the outputs of the call and what it cost."""
        recorder = self._recorder
        recorder.time.communication += waited_s
        try:
            outputs = list(_numbered(bound, output_names)) or [("", None)]
            size = call.size_bytes or sum(x.numel() * x.element_size() for _, x in outputs if x is not None)
            costs = (float(size), time.perf_counter() - call.began, waited_s)
            for number, (path, tensor) in enumerate(outputs):
                row = self._fill("communication", call.site + path, call.number, tensor)
                row.values[row.index, _COLUMNS:] = costs if number == 0 else (0.0,) * len(COSTS)
        except Exception as error:  # noqa: BLE001  as above
            recorder.fail("communication", error)

    def _fill(self, subject: str, site: str, number: int, tensor: torch.Tensor | None) -> Row:
        rows = self._recorder.rows_of(subject)
        row = self._rows.get((subject, site, number))
        if row is None:
            row = self._rows[subject, site, number] = rows.row(site, number)
        row.values[row.index, :_COLUMNS] = np.nan
        if tensor is not None:
            with suppress(Unsupported):
                self._measure(row, tensor)
        row.present[row.index] = 1
        return row

    def _measure(self, row: Row, tensor: torch.Tensor) -> None:
        device_tensor = remote(tensor)
        if device_tensor is not None and self._recorder.device_results.accepts_requests:
            self._recorder.device_results.request_row(
                device_tensor, row, at_once=True
            )  # the call may overwrite the tensor
            return
        (address, size, code), owner = place_of(tensor)
        measure(address, size, code, row.address)
        del owner

    def _record_line(self, site: str) -> None:
        """Record an event for each line that calls the operation, once."""
        key = (site, *user_line(TORCH_FILES))
        if key not in self._recorded_lines:
            self._recorded_lines.add(key)
            self._recorder.event("collective", site, file=key[1], line=key[2])


def _site_of(operation: str, bound: Mapping[str, object]) -> str:
    group = group_name(distributed, bound.get("group"))
    if operation not in TRANSFERS:
        return f"{operation}/{group}"
    return transfer_site(operation, group, distributed.get_rank(), peer_of(bound))


def _numbered(bound: Mapping[str, object], names: tuple[str, ...]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor): the first has the empty path, the others have their number."""
    for number, tensor in enumerate(tensors_of(bound, names)):
        if number == 16:
            return
        yield (f"[{number}]" if number else ""), tensor
