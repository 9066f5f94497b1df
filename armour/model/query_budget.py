"""How many rows a predictor may be asked for: a remote one costs money, and locks out who asks too much."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InvalidInput, QueriesExhausted


class QueryBudget:
    """A count of rows that ends.

    Args:
        limit: Rows in all, 1 or more.
    """

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidInput(f"queries expects a number of rows of 1 or more, got {limit!r}")
        self.limit = limit
        self.used = 0
        self.is_exhausted = False
        self._reserved = 0

    @property
    def left(self) -> int:
        """Rows that may still be asked for."""
        return self.limit - self.used

    def spend(self, rows: int) -> None:
        """Count the rows before they are asked for; none of them is where they do not all fit.

        Raises:
            QueriesExhausted: So many are not left.
        """
        if rows > self.left - self._reserved:
            self.is_exhausted = True
            raise QueriesExhausted(
                f"the query budget of {self.limit} rows is spent: {self.used} were asked for, {rows} more do not fit"
            )
        self.used += rows

    @contextmanager
    def reserving(self, rows: int) -> Iterator[None]:
        """Keep so many rows back within the block, for what comes after it."""
        self._reserved += rows
        try:
            yield
        finally:
            self._reserved -= rows
