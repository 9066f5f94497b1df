"""What is known of a step beside the rows that hooks fill, until a record is made of it."""

from collections.abc import Callable
from typing import Any

from ...storage.records import Event, Histogram
from ..collectors.collector import Collect, Rows, SiteRows, Step
from ..device_results import Outbox
from .row_buffers import CallRows, merge_rows


class Draft:
    """The numbers of the (micro-)step in progress as its collectors give them, and its events.

    Args:
        open_rows: The rows of a subject with these columns.
        outbox: Where late scalars are promised.

    Attributes:
        rows: By subject, those of all parameters.
        scalars: By name.
        histograms: In no order.
        events: As they happened.
        measured: The collector that a scalar is of, by its name; what a user logs is of none.
    """

    def __init__(self, open_rows: Callable[[str, tuple[str, ...]], CallRows], outbox: Outbox) -> None:
        self._open_rows, self._outbox = open_rows, outbox
        self.clear()

    def clear(self) -> None:
        """Nothing; a new record is begun, and what the one before was given is its own."""
        self.rows: dict[str, Rows] = {}
        self.scalars: dict[str, float] = {}
        self.measured: dict[str, str] = {}
        self.histograms: list[Histogram] = []
        self.events: list[Event] = []

    def ask(self, asked: tuple[tuple[str, Collect], ...], step: Step, failed: Callable[[str, Exception], None]) -> None:
        """Nothing; what these collectors find is part of the record.

        Args:
            asked: With their names.
            failed: Told of one that raises.
        """
        rows, scalars, measured = self.rows, self.scalars, self.measured
        for collector, collect in asked:
            try:
                found = collect(step)
            except Exception as error:  # noqa: BLE001  the training must not feel that a collector fails
                failed(collector, error)
                continue
            if isinstance(found, tuple):
                self.histograms += found
                continue
            for key, value in found.items():
                if isinstance(value, Rows) and key not in rows:
                    rows[key] = value
                elif isinstance(value, float) and key not in scalars:
                    scalars[key], measured[key] = value, collector
                else:
                    self.put(collector, key, value)

    def put(self, collector: str, key: str, value: Any) -> None:  # Any: rows or numbers, told apart here
        """Nothing; what the collector has found is part of the record, unless the user has logged it."""
        if isinstance(value, Rows):
            held = {key: self.rows[key]} if key in self.rows else {}
            self.rows.update(merge_rows(held, {key: value}, self._outbox.when_there))
        elif isinstance(value, SiteRows):
            rows = self._open_rows(key, value.columns)
            for site, numbers in value.values.items():
                row = rows.row(site, 0)
                row.put(numbers) if isinstance(numbers, tuple) else row.owe(numbers)
        elif self.measured.get(key) == collector or key not in self.scalars:
            self.measured[key] = collector
            if callable(value):
                self._outbox.late_scalar(key, value)
            else:
                self.scalars[key] = value
