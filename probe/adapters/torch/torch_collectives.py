"""The collectives of torch.distributed: inputs, outputs and waiting times of every process."""

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import update_wrapper
from typing import Final, Protocol

import numpy as np
import torch
import torch.distributed as distributed

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
from .torch_collective_ring import TORCH_FILES, NotedCall, tensors_of
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
    "batch_isend_irecv": (("isend",), ("irecv",)),  # a list of these operations
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


class _WatchedWork(distributed.Work):  # type: ignore[misc]  # torch's types are not looked at
    """A `Work` that records when it is waited for; everything else is the original's."""

    def __init__(self, work: distributed.Work, done: Callable[[float], None], noted: NotedCall) -> None:
        super().__init__()
        self._work, self._done, self._noted = work, done, noted
        self._is_reported = False

    def wait(self, *arguments: object, **options: object) -> object:
        """Wait for the original and return its result."""
        began = time.perf_counter()
        self._noted.waits()
        try:
            result = self._work.wait(*arguments, **options)
        except BaseException:
            self._noted.ends("failed")
            raise
        self._noted.ends("completed")
        if not self._is_reported:
            self._is_reported = True
            self._done(time.perf_counter() - began)
        return result

    def __getattribute__(self, name: str) -> object:
        if name in ("wait", "_work", "_done", "_noted", "_is_reported", "__class__", "__init__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_work"), name)


class _WatchedCollective:
    """A function of torch.distributed that reports its calls; equal to the original, since torch compares `isend`."""

    def __init__(self, name: str, original: Callable[..., object]) -> None:
        self._name, self._original = name, original
        self._input_names, self._output_names = _OPERATIONS[name]
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
        if self._name == "batch_isend_irecv":
            bound = _by_direction(bound)
        heard = ((listener, listener.begins(self._name, bound, self._input_names)) for listener in tuple(_listeners))
        calls = [(listener, call) for listener, call in heard if call is not None]
        noted = NotedCall(self._name, bound, self._input_names or self._output_names)
        try:
            result = self._original(*arguments, **options)
        except BaseException:
            noted.ends("failed")
            raise
        noted.ends("enqueued" if isinstance(result, _PENDING) else "completed")
        if not calls and not noted.slots:
            return result

        def done(waited_s: float | None = None) -> None:
            for listener, call in calls:
                listener.ends(
                    call, bound, self._output_names, time.perf_counter() - call.began if waited_s is None else waited_s
                )

        if isinstance(result, distributed.Work):
            return _WatchedWork(result, done, noted)
        if isinstance(result, list) and result:
            *others, last = result
            return [*others, _WatchedWork(last, done, noted)]  # waiting for the last one means waiting for all
        done()
        return result


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


def _by_direction(bound: Mapping[str, object]) -> dict[str, object]:
    """Sort a list of sends and receives by the names of their operations."""
    found: dict[str, list[torch.Tensor]] = {"isend": [], "irecv": []}
    group: object = None
    names, tensors, peers = [], [], []
    operations = bound.get("p2p_op_list")
    for operation in operations if isinstance(operations, list | tuple) else ():
        name = getattr(operation.op, "__name__", "")
        found.setdefault(name, []).append(operation.tensor)
        group = operation.group
        names.append(name)
        tensors.append(operation.tensor)
        peers.append(operation.peer)
    return {**found, "group": group, "operations": names, "tensors": tensors, "peers": peers}


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
            site = f"{operation}/{group_name(distributed, bound.get('group'))}"
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


def _numbered(bound: Mapping[str, object], names: tuple[str, ...]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor): the first has the empty path, the others have their number."""
    for number, tensor in enumerate(tensors_of(bound, names)):
        if number == 16:
            return
        yield (f"[{number}]" if number else ""), tensor
