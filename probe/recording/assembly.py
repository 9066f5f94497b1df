"""Makes the record of a (micro-)step of what hooks, collectors and the dumper have found in it."""

from collections.abc import Callable

from ...storage.records import Block, StepRecord
from ..collectors.collector import View
from ..device_results import Outbox
from ..flight_recorder import splitter
from .current import CurrentStep
from .draft import Draft
from .due_collectors import Due
from .row_buffers import HookRows, TableRows
from .whole_tensors import WholeTensors


class Assembly:
    """The draft and the rows are empty again once they are part of a record.

    Args:
        due: Knows what was due by schedule, and what is only the flight recorder's.
        outbox: Fills in later what a device owes.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        current: CurrentStep,
        due: Due,
        draft: Draft,
        hook_rows: HookRows,
        whole_tensors: WholeTensors,
        outbox: Outbox,
        clock: Callable[[], float],
    ) -> None:
        self._current, self._due, self._draft, self._outbox, self._clock = current, due, draft, outbox, clock
        self._hook_rows, self._tables, self._whole = hook_rows, TableRows(), whole_tensors

    def blocks(self, view: View | None = None) -> list[Block]:
        """The rows that hooks have filled; with a view also those of all parameters, which collectors have found."""
        blocks = self._hook_rows.take(self._outbox.owe_block)
        if view is not None:
            self._tables.take(blocks, self._draft.rows, view, self._hook_rows.columns)
        return blocks

    def record(self, blocks: list[Block], *, skipped: bool = False) -> StepRecord:
        """The record with these blocks, which the outbox has sealed and waits for.

        Args:
            skipped: Whether the step left the weights as they were.
        """
        current, draft, agenda = self._current, self._draft, self._due.agenda
        if self._whole.dumper is not None:
            draft.events += self._whole.dumper.take_events()
        record = StepRecord(
            current.step,
            self._clock(),
            current.micro_step,
            skipped,
            tuple(blocks),
            draft.scalars,
            tuple(draft.histograms),
            tuple(draft.events),
        )
        splits = splitter(agenda.in_flight, agenda.scheduled, draft.measured) if agenda.in_flight else None
        record = self._outbox.seal(record, splits)
        draft.clear()
        current.loss = None
        return record
