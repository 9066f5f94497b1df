"""What one rank of one run has recorded in memory, and the one who records it."""

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from .encoding.block_rounding import quantize
from .errors import StoreError
from .history.block_stacks import is_empty
from .records import Event, Finding, FindingKey, Layout, Outcome, StepRecord, check_earlier, check_order, joined
from .run_info import FormerStructure, Run, RunState, Structure
from .schema.row_statements import MOST_FORMER


@dataclass(slots=True)
class MemoryRank:
    """What one rank of one run has recorded."""

    run: Run
    structure: Structure = field(default_factory=Structure)
    former: list[FormerStructure] = field(default_factory=list)
    records: list[StepRecord] = field(default_factory=list)
    joined_last: tuple[int, int] = (-1, 0)
    events: list[tuple[int, int, Event]] = field(default_factory=list)
    findings: dict[FindingKey, Finding] = field(default_factory=dict)
    outcomes: dict[tuple[str, str, float], Outcome] = field(default_factory=dict)
    layouts: dict[Layout, None] = field(default_factory=dict)
    revision: int = 0
    is_written: bool = True

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add findings; one of the same rule, site, rank and first step replaces the earlier."""
        self.findings.update({finding.key: finding for finding in findings})
        self.revision += 1


class MemoryWriter:
    """The `RunWriter` of a memory store."""

    def __init__(self, rank: MemoryRank, lock: AbstractContextManager[bool]) -> None:
        self._rank = rank
        self._lock = lock
        self._run = rank.run
        self._closed = False
        self._shown: StepRecord | None = None  # the last of the records, which is not final

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._run

    def write_structure(self, structure: Structure) -> None:
        """Replace the recorded structure, which stays that of the records before."""
        self._check_open()
        with self._lock:
            self._keep_former(structure)
            self._rank.structure = structure
            self._touch()

    def _keep_former(self, structure: Structure) -> None:
        rank, known = self._rank, self._final()
        if rank.structure in (Structure(), structure) or not known or len(rank.former) >= MOST_FORMER:
            return
        last = (known[-1].step, known[-1].micro_step)
        if not rank.former or last > (rank.former[-1].step, rank.former[-1].micro_step):
            rank.former.append(FormerStructure(*last, rank.structure))

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Add records and findings, all or none.

        Raises:
            StoreError: A record does not come after the last one; nothing was written.
        """
        self._check_open()
        with self._lock:
            known = self._final()
            check_order(self._run.id, (known[-1].step, known[-1].micro_step) if known else (-1, 0), records)
            rounded, later = [_rounded(record) for record in records], [_rounded(record) for record in earlier]
            newest = (rounded or known)[-1:]
            last = (newest[0].step, newest[0].micro_step) if newest else (-1, 0)
            self._rank.joined_last = check_earlier(self._run.id, self._rank.joined_last, last, later)
            if rounded:
                self._take_back()
            self._add(rounded)
            self._join(later)
            self._rank.layouts.update(dict.fromkeys(block.layout for record in later for block in record.blocks))
            self._rank.add_findings(findings)
            self._touch()

    def preview(self, record: StepRecord) -> None:
        """Show a record that is not final.

        Raises:
            StoreError: It does not come after the last one.
        """
        self._check_open()
        with self._lock:
            known = self._final()
            check_order(self._run.id, (known[-1].step, known[-1].micro_step) if known else (-1, 0), (record,))
            rounded = _rounded(record)
            self._take_back()
            self._add([rounded])
            self._shown = rounded
            self._touch()

    def _final(self) -> list[StepRecord]:
        records = self._rank.records
        return records if self._shown is None else records[:-1]

    def _take_back(self) -> None:
        """Remove the previewed record, if there is one."""
        if self._shown is not None:
            own = {id(event) for event in self._shown.events}
            self._rank.records.pop()
            self._rank.events = [event for event in self._rank.events if id(event[2]) not in own]
            self._shown = None

    def _add(self, rounded: Sequence[StepRecord]) -> None:
        self._rank.records.extend(rounded)
        self._rank.layouts.update(dict.fromkeys(block.layout for record in rounded for block in record.blocks))
        self._rank.events.extend(
            (record.step, record.micro_step, event) for record in rounded for event in record.events
        )

    def _join(self, later: Sequence[StepRecord]) -> None:
        wanted = {(record.step, record.micro_step): record for record in later}
        for at, record in enumerate(self._rank.records if wanted else ()):
            self._rank.records[at] = joined(record, wanted.get((record.step, record.micro_step)))

    def write_events(self, events: Sequence[Event]) -> None:
        """Add events that belong to no record."""
        self._check_open()
        with self._lock:
            self._rank.events.extend((event.step, event.micro_step, event) for event in events)
            self._touch()

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes; one of the same attack, norm and epsilon replaces the earlier."""
        self._check_open()
        with self._lock:
            self._rank.outcomes.update(
                {(outcome.attack, outcome.norm, outcome.epsilon): outcome for outcome in outcomes}
            )
            self._touch()

    def maintain(self) -> bool:
        """Return False: memory needs no housekeeping."""
        return False

    def make_room(self) -> None:
        """Do nothing: memory reserves no room."""

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Record how the run ended; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._rank.run = replace(self._rank.run, state=state, error=error)
            self._rank.is_written = False
            self._touch()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"run {self._run.id!r} is closed; nothing more can be written to it")

    def _touch(self) -> None:
        rank = self._rank
        last = rank.records[-1].step if rank.records else rank.run.last_step
        rank.run = replace(rank.run, updated_at=time.time(), last_step=last)
        rank.revision += 1


def _rounded(record: StepRecord) -> StepRecord:
    """Return the record as every other backend would give it back."""
    scalars = {name: float(value) for name, value in record.scalars.items()}
    return replace(
        record,
        blocks=tuple(quantize(block) for block in record.blocks if not is_empty(block)),
        scalars=scalars,
        beside=None,
    )
