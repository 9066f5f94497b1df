"""Collectives of torch.distributed, seen by replacing its functions while anybody listens.

A call is recorded before it, for what this process gives, and after it, for what it gets. An asynchronous call gives a
`Work`; the one that the caller gets here hands everything on and records when it is waited for.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed

from ..block import Row
from ..collectors.communication import COSTS
from ..kernels import STATISTICS, measure
from ..ranks import group_name
from ..recorder import Recorder
from ..user_line import user_line
from .tensors import Unsupported
from .torch_memory import place_of

__all__ = ["CommunicationTaps"]

#: What goes in and what comes out of every operation, by the names of its arguments.
_OPERATIONS: Final = {
    "all_reduce": (("tensor",), ("tensor",)),
    "all_gather": (("tensor",), ("tensor_list",)),
    "all_gather_into_tensor": (("input_tensor",), ("output_tensor",)),
    "reduce_scatter": (("input_list",), ("output",)),
    "reduce_scatter_tensor": (("input",), ("output",)),
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
    "barrier": ((), ()),
}
_MODULES: Final = (distributed, distributed.distributed_c10d)
_TORCH: Final = str(Path(torch.__file__).parent)
_COLUMNS: Final = len(STATISTICS)

_listeners: "list[CommunicationTaps]" = []
_originals: list[tuple[Any, str, Any, Any]] = []


class CommunicationTaps:
    """Records the collectives of this process into one recorder, from `attach` to `remove`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls: dict[str, tuple[int, int]] = {}
        self._rows: dict[tuple[str, str, int], Row] = {}
        self._told: set[tuple[str, str, int]] = set()

    def attach(self) -> None:
        """Nothing; calls are seen from now on."""
        _listeners.append(self)
        if len(_listeners) == 1:
            for name, (given, got) in _OPERATIONS.items():
                for module in _MODULES:
                    if hasattr(module, name):
                        _replace(module, name, given, got)

    def remove(self) -> None:
        """Nothing; after the last one torch.distributed is as it was."""
        if self in _listeners:
            _listeners.remove(self)
        while not _listeners and _originals:
            owner, name, original, ours = _originals.pop()
            if getattr(owner, name) is ours:
                setattr(owner, name, original)

    def begins(self, operation: str, bound: Mapping[str, Any], given: tuple[str, ...]) -> "_Call | None":
        """The call that begins now, what it gives recorded; None where nothing is due."""
        recorder = self._recorder
        if not recorder.sees_communication:
            return None
        try:
            site = f"{operation}/{group_name(distributed, bound.get('group'))}"
            stamp, number = self._calls.get(site, (-1, -1))
            number = number + 1 if stamp == recorder.stamp else 0
            self._calls[site] = (recorder.stamp, number)
            self._tell_place(site)
            call = _Call(site, number, sum(x.numel() * x.element_size() for x in _tensors(bound, given)))
            for path, tensor in _numbered(bound, given):
                self._fill("communication/before", site + path, number, tensor)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("communication", error)
            return None
        return call

    def ends(self, call: "_Call", bound: Mapping[str, Any], got: tuple[str, ...], waited_s: float) -> None:
        """Nothing; what came out of the call is recorded, with what it cost."""
        recorder = self._recorder
        try:
            outputs = list(_numbered(bound, got)) or [("", None)]
            size = call.size_bytes or sum(x.numel() * x.element_size() for _, x in outputs if x is not None)
            costs = (float(size), time.perf_counter() - call.began, waited_s)
            for place, (path, tensor) in enumerate(outputs):
                row = self._fill("communication", call.site + path, call.number, tensor)
                row.values[row.index, _COLUMNS:] = costs if place == 0 else (0.0,) * len(COSTS)
        except Exception as error:  # noqa: BLE001  as above
            recorder.fail("communication", error)

    def _fill(self, subject: str, site: str, number: int, tensor: Any) -> Row:
        rows = self._recorder.rows_of(subject)
        row = self._rows.get((subject, site, number))
        if row is None:
            row = self._rows[subject, site, number] = rows.row(site, number)
        row.values[row.index, :_COLUMNS] = np.nan
        if tensor is not None:
            try:
                (address, size, code), owner = place_of(tensor)
                measure(address, size, code, row.address)
                del owner
            except Unsupported:
                pass
        row.present[row.index] = 1
        return row

    def _tell_place(self, site: str) -> None:
        """An event for each line that calls the operation, once."""
        key = (site, *user_line(_TORCH))
        if key not in self._told:
            self._told.add(key)
            self._recorder.event("collective", site, file=key[1], line=key[2])


class _Call:
    """One call in progress."""

    __slots__ = ("began", "number", "site", "size_bytes")

    def __init__(self, site: str, number: int, size_bytes: int) -> None:
        self.site, self.number, self.size_bytes = site, number, size_bytes
        self.began = time.perf_counter()


class _WatchedWork(distributed.Work):  # type: ignore[misc]  # torch's types are not looked at
    """A `Work` that records when it is waited for; everything else is the original's."""

    def __init__(self, work: Any, done: Callable[[float], None]) -> None:
        super().__init__()
        self._work, self._done = work, done
        self._is_told = False

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """What the original's `wait` returns."""
        began = time.perf_counter()
        result = self._work.wait(*arguments, **options)
        if not self._is_told:
            self._is_told = True
            self._done(time.perf_counter() - began)
        return result

    def __getattribute__(self, name: str) -> Any:
        if name in ("wait", "_work", "_done", "_is_told", "__class__", "__init__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_work"), name)


def _replace(module: Any, name: str, given: tuple[str, ...], got: tuple[str, ...]) -> None:
    original = getattr(module, name)
    signature = inspect.signature(original)

    @wraps(original)
    def watched(*arguments: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **options).arguments
        except TypeError:
            return original(*arguments, **options)  # which says what is wrong
        open_calls = [(taps, call) for taps in _listeners if (call := taps.begins(name, bound, given)) is not None]
        result = original(*arguments, **options)
        if not open_calls:
            return result

        def done(waited_s: float | None = None) -> None:
            for taps, call in open_calls:
                taps.ends(call, bound, got, time.perf_counter() - call.began if waited_s is None else waited_s)

        if isinstance(result, distributed.Work):
            return _WatchedWork(result, done)
        done()
        return result

    _originals.append((module, name, original, watched))
    setattr(module, name, watched)


def _tensors(bound: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Any]:
    for name in names:
        value = bound.get(name)
        yield from (x for x in (value if isinstance(value, list | tuple) else (value,)) if isinstance(x, torch.Tensor))


def _numbered(bound: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(path, tensor): the first stands for the whole, others have their place behind the site."""
    for place, tensor in enumerate(_tensors(bound, names)):
        if place == 16:
            return
        yield (f"[{place}]" if place else ""), tensor
