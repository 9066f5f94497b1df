"""What collectives do and cost: recorded before a call, for what is given, and behind it, for what comes out."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed

from ...access.tensors import Unsupported
from ...collectors.communication import COSTS
from ...kernels import STATISTICS, measure
from ...ranks import group_name
from ...recording.call_rows import Row
from ...recording.recorder import Recorder
from ...user_line import user_line
from .collectives import Call, add_collective_listener, remove_collective_listener
from .memory import place_of
from .parts import remote

_TORCH: Final = str(Path(torch.__file__).parent)
_COLUMNS: Final = len(STATISTICS)


class CommunicationTaps:
    """Records the collectives of this process into one recorder, from `attach` to `remove`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls: dict[str, tuple[int, int]] = {}
        self._rows: dict[tuple[str, str, int], Row] = {}
        self._told: set[tuple[str, str, int]] = set()

    def attach(self) -> None:
        """Nothing; calls are seen from now on."""
        add_collective_listener(self)

    def remove(self) -> None:
        """Nothing; after the last one torch.distributed is as it was."""
        remove_collective_listener(self)

    def begins(self, operation: str, bound: Mapping[str, Any], given: tuple[str, ...]) -> Call | None:
        """The call that begins now, what it gives recorded; None where nothing is due."""
        recorder, current = self._recorder, self._recorder.current
        if not current.sees_communication:
            return None
        try:
            site = f"{operation}/{group_name(distributed, bound.get('group'))}"
            stamp, number = self._calls.get(site, (-1, -1))
            number = number + 1 if stamp == current.stamp else 0
            self._calls[site] = (current.stamp, number)
            self._tell_place(site)
            call = Call(site, number, sum(x.numel() * x.element_size() for x in _tensors(bound, given)))
            for path, tensor in _numbered(bound, given):
                self._fill("communication/before", site + path, number, tensor)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("communication", error)
            return None
        return call

    def ends(self, call: Call, bound: Mapping[str, Any], got: tuple[str, ...], waited_s: float) -> None:
        """Nothing; what came out of the call is recorded, with what it cost."""
        recorder = self._recorder
        recorder.time.communication += waited_s
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
            with suppress(Unsupported):
                self._measure(row, tensor)
        row.present[row.index] = 1
        return row

    def _measure(self, row: Row, tensor: Any) -> None:
        away = remote(tensor)
        if away is not None and self._recorder.outbox.takes_promises:
            self._recorder.outbox.owe_row(away, row, at_once=True)  # the call may write over it
            return
        (address, size, code), owner = place_of(tensor)
        measure(address, size, code, row.address)
        del owner

    def _tell_place(self, site: str) -> None:
        """An event for each line that calls the operation, once."""
        key = (site, *user_line(_TORCH))
        if key not in self._told:
            self._told.add(key)
            self._recorder.event("collective", site, file=key[1], line=key[2])


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
