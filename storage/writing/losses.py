"""Counts the records that never reach the store, until an event reports them."""

import operator
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ..records import Json, Layout, StepRecord

#: The event that reports lost records.
EVENT = "observations_lost"


class Losses:
    """Lost records by number, steps and sites; used by the training thread and the writer thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = self._count = 0
        self._reason = ""
        self._forget()

    @property
    def total(self) -> int:
        """How many records were lost so far."""
        return self._total

    def add(self, records: Iterable[StepRecord], reason: str = "") -> None:
        """Count records as lost; earlier losses that their events would have reported are to be reported again.

        Args:
            reason: Why the store refused them; empty when the queue was full.
        """
        with self._lock:
            self._reason = reason or self._reason
            for record in records:
                self._total += 1
                self._count += 1
                self._extend(record.step, record.step)
                self._see_sites(record)
                for event in record.events:
                    if event.kind == EVENT:
                        self._take_back(event.data)

    def count(self, count: int, first: int, last: int, reason: str) -> None:
        """Count records as lost of which only number and steps are known; fewer than none were counted by mistake."""
        with self._lock:
            self._total += count
            self._count = max(self._count + count, 0)
            if count > 0:
                self._extend(first, last)
                self._reason = reason

    def take(self) -> dict[str, Json]:
        """Return the losses since the last call as data of the event, and forget them; empty when there are none."""
        with self._lock:
            if not self._count:
                return {}
            whole = {site for layout in self._layouts.values() for site in layout.sites}
            data: dict[str, Json] = {"count": self._count}
            if self._first is not None:
                data |= {"first": self._first, "last": self._last}
            data["sites"] = max(len(whole | self._sites), self._sites_before)
            if self._reason:
                data["error"] = self._reason
            self._forget()
            return data

    def _forget(self) -> None:
        self._count, self._reason = 0, ""
        self._first: int | None = None
        self._last: int | None = None
        self._layouts: dict[int, Layout] = {}  # by identity: to hash a layout takes longer than to drop a record
        self._sites: set[str] = set()
        self._sites_before = 0  # of events that were lost themselves

    def _extend(self, first: object, last: object) -> None:
        with suppress(TypeError):  # a record without a proper step is lost for that very reason
            low, high = operator.index(first), operator.index(last)  # type: ignore[arg-type]
            self._first = low if self._first is None else min(self._first, low)
            self._last = high if self._last is None else max(self._last, high)

    def _see_sites(self, record: StepRecord) -> None:
        for block in record.blocks:
            if block.present is None:
                self._layouts[id(block.layout)] = block.layout
            else:
                pairs = zip(block.layout.sites, block.present, strict=False)
                self._sites.update(site for site, is_present in pairs if is_present)

    def _take_back(self, data: Mapping[str, Json]) -> None:
        """Count what an event that is lost itself would have reported."""
        count, sites, reason = data.get("count"), data.get("sites"), data.get("error")
        self._count += count if isinstance(count, int) else 0
        self._extend(data.get("first"), data.get("last"))
        self._sites_before = max(self._sites_before, sites if isinstance(sites, int) else 0)
        self._reason = self._reason or (reason if isinstance(reason, str) else "")
