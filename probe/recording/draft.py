"""The numbers of a step as its collectors give them, until a record is made of them."""

from collections.abc import Callable, Mapping
from typing import Any

from ..collectors.collector import Rows, SiteRows
from ..outbox.outbox import Outbox
from .block import CallRows, merge_rows


class Draft:
    """What the record of the (micro-)step in progress will hold beside the rows that hooks fill.

    Args:
        open_rows: The rows of a subject with these columns.
        outbox: Where late scalars are promised.

    Attributes:
        rows: By subject, those of all parameters.
        scalars: By name.
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

    def put(self, collector: str, found: Mapping[str, Any]) -> None:  # Any: rows or numbers, told apart here
        """Nothing; what the collector has found is part of the record, unless the user has logged it."""
        for key, value in found.items():
            if isinstance(value, Rows) and key not in self.rows:
                self.rows[key] = value
            elif isinstance(value, Rows):
                self.rows = merge_rows(self.rows, {key: value}, self._outbox.when_there)
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
