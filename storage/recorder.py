"""Writes one recording through SQLAlchemy Core: every call is one transaction, the same for SQLite and PostgreSQL."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np
from sqlalchemy import Connection, insert, select

from .beside import check_earlier
from .changes import insert_rows, replace_rows, touch
from .chunks import LENGTH
from .compact import compact, count_hot, take_apart
from .connect import in_our_words
from .descriptions import layout_bytes, structure_bytes
from .errors import StoreError, StoreUnavailable
from .layout import PACK_VERSION, is_empty, pack_alike
from .order import check_order
from .process import describe, identity, is_alive, machine
from .rare import event_row, write_findings
from .recording import Recording, summarise_recording
from .records import Block, Event, Finding, Layout, Outcome, StepRecord
from .retention import Retention, thin_once
from .rows import histogram_bytes, outcome_text
from .run import Run, RunState, Structure
from .streams import EARLIER, SCALAR, STEP, STEP_LAYOUT, Stream, earlier_layout, read_streams
from .tables import event, histogram, hot, outcome, recording, stream
from .text import to_json

_log = logging.getLogger(__name__)
#: The sign of life of a writer that has nothing to write.
BEAT_S = 10.0
#: Records of a stream that are compacted when the run ends; fewer take as much room in chunks as they came with.
_REST = 16


class Place(Protocol):
    """The housekeeping that differs between a file and a database."""

    def check(self, *, growing: bool) -> None:
        """Nothing while the place can be written; raises `StoreUnavailable` when it is gone or has no room to grow."""

    def tidy(self) -> bool:
        """Does one bounded piece (checkpoint, vacuum); True when more is waiting."""

    def make_room(self) -> None:
        """Frees what was kept for the end of a run on a full disk."""

    def release(self) -> None:
        """Lets go of the connection."""


class Recorder:
    """The `RunWriter` of a database; used by one thread, inert in a forked child."""

    def __init__(self, target: Recording, run: Run, place: Place, retention: Retention) -> None:
        self._target = target
        self._place = place
        self._retention = retention
        self._pid = os.getpid()
        self._run = run
        self._closed = False
        self._beat = time.monotonic()
        with in_our_words(target.place), target.engine.begin() as connection:
            known = read_streams(connection, target.id)
            take_apart(connection, known)
            hot_records = count_hot(connection, target.id)
            last = connection.execute(
                select(hot.c.step, hot.c.micro_step)
                .join(stream, hot.c.stream == stream.c.id)
                .where(stream.c.recording == target.id, stream.c.subject == STEP)
                .order_by(hot.c.step.desc(), hot.c.micro_step.desc())
                .limit(1)
            ).one_or_none()
        self._streams = {one.layout: one.id for one in known}
        scalars = [one.layout for one in known if one.layout.subject == SCALAR]
        self._scalars = {name: one for one in scalars if one.part < EARLIER for name in one.sites}
        self._earlier_scalars = {name: one for one in scalars if one.part >= EARLIER for name in one.sites}
        self._by_identity: dict[int, tuple[Layout, int]] = {}
        self._last = self._joined_last = (run.last_step, last[1] if last else 0)
        self._hot = Counter(hot_records)
        self._may_thin = True

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._run

    def write_structure(self, structure: Structure) -> None:
        """Replaces the recorded structure."""
        with self._transaction() as connection:
            self._touch(connection, structure=structure_bytes(structure))

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Adds records and findings, and what joins earlier records, in one transaction.

        Raises:
            StoreError: A record does not come after the last one; nothing was written.
        """
        last = check_order(self._run.id, self._last, records)
        joined_last = check_earlier(self._run.id, self._joined_last, last, earlier)
        with self._transaction(growing=bool(records or earlier)) as connection:
            written = self._write_hot(connection, ((one, (_step_block(one), *one.blocks)) for one in records))
            written += self._write_hot(connection, ((one, _earlier_blocks(one)) for one in earlier), EARLIER)
            self._write_rare(connection, records)
            write_findings(connection, self._target.id, findings)
            self._touch(connection, last_step=last[0])
        self._last, self._joined_last = last, joined_last
        self._hot.update(written)

    def write_events(self, events: Sequence[Event]) -> None:
        """Adds events that belong to no record."""
        with self._transaction() as connection:
            insert_rows(
                connection, event, [event_row(self._target.id, one, one.step, one.micro_step) for one in events]
            )
            self._touch(connection)

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Adds outcomes in one transaction; one of the same attack, norm and epsilon replaces the earlier."""
        rows = [
            {"attack": one.attack, "norm": one.norm, "epsilon": repr(float(one.epsilon)), "data": outcome_text(one)}
            for one in outcomes
        ]
        with self._transaction() as connection:
            replace_rows(connection, outcome, self._target.id, rows, ("attack", "norm", "epsilon"))
            self._touch(connection)

    def maintain(self) -> bool:
        """Does one bounded piece of housekeeping; True when more is waiting."""
        if self._closed or os.getpid() != self._pid:
            return False
        if self._compact_some(LENGTH):
            return True
        if time.monotonic() - self._beat > BEAT_S:
            with self._transaction() as connection:
                self._touch(connection)
        with in_our_words(self._target.place):
            return self._place.tidy()

    def make_room(self) -> None:
        """Frees what was kept for the end of a run on a full disk."""
        self._place.make_room()

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Compacts, records how the run ended and lets go of the store; a second call does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        self.make_room()
        try:
            with self._transaction() as connection:
                self._touch(connection, state=state, error=error, writer="")
            while self._compact_some(LENGTH):
                pass
            self._compact_rest()
        finally:
            self._closed = True
            with in_our_words(self._target.place):
                self._place.release()

    def _compact_some(self, least: int) -> bool:
        """True when a stream had so many hot records and they are in chunks now, or something old was thinned."""
        key = next((key for key, count in self._hot.items() if count >= least), None)
        if key is not None:
            layout = next(layout for layout, number in self._streams.items() if number == key)
            with self._transaction() as connection:
                moved = compact(connection, Stream(key, layout), min(self._hot[key], LENGTH))
            self._hot[key] = self._hot[key] - moved if moved >= least else 0
            self._may_thin = True
        elif self._may_thin:
            with self._transaction() as connection:
                self._may_thin = thin_once(connection, self._target.id, self._retention)
        else:
            return False
        return True

    def _compact_rest(self) -> None:
        """Makes small what is too little for a whole chunk; what cannot be stays as it came."""
        try:
            while self._compact_some(_REST):
                pass
        except StoreError as error:
            _log.warning("run %s: its newest records stay uncompressed: %s", self._run.id, error)

    @contextmanager
    def _transaction(self, *, growing: bool = False) -> Iterator[Connection]:
        if self._closed:
            raise StoreError(f"run {self._run.id!r} is closed; nothing more can be written to it")
        if os.getpid() != self._pid:
            raise StoreError(f"run {self._run.id!r} belongs to process {self._pid}; this is its forked child")
        self._place.check(growing=growing)
        known = dict(self._streams)
        try:
            with in_our_words(self._target.place), self._target.engine.begin() as connection:
                yield connection
        except BaseException:
            self._streams = known  # those made in the transaction were undone with it
            self._by_identity.clear()
            raise

    def _write_hot(
        self, connection: Connection, records: Iterable[tuple[StepRecord, Iterable[Block]]], first: int = 0
    ) -> Counter[int]:
        """Adds blocks and scalars of records; streams of scalars that are new are numbered from `first` on.

        Returns:
            By stream, how many it has got.
        """
        scalars = self._earlier_scalars if first else self._scalars
        alike: dict[int, list[tuple[StepRecord, Block]]] = {}
        for record, blocks in records:
            for block in (*blocks, *_scalar_blocks(record, scalars, first)):
                if not is_empty(block):
                    alike.setdefault(self._stream(connection, block.layout), []).append((record, block))
        rows = [
            {
                "stream": number,
                "step": int(record.step),
                "micro_step": int(record.micro_step),
                "time": float(record.time),
                "codec": PACK_VERSION,
                "data": data,
            }
            for number, pairs in alike.items()
            for (record, _), data in zip(pairs, pack_alike([block for _, block in pairs]), strict=True)
        ]
        insert_rows(connection, hot, rows)
        return Counter({number: len(pairs) for number, pairs in alike.items()})

    def _write_rare(self, connection: Connection, records: Sequence[StepRecord]) -> None:
        number = self._target.id
        shapes = [
            {
                "recording": number,
                "step": int(record.step),
                "micro_step": int(record.micro_step),
                "site": one.site,
                "subject": one.subject,
                "call": one.call,
                "data": histogram_bytes(one),
            }
            for record in records
            for one in record.histograms
        ]
        events = [event_row(number, one, record.step, record.micro_step) for record in records for one in record.events]
        insert_rows(connection, histogram, shapes)
        insert_rows(connection, event, events)

    def _stream(self, connection: Connection, layout: Layout) -> int:
        by_identity = self._by_identity.get(id(layout))
        if by_identity is not None:
            return by_identity[1]
        number = self._streams.get(layout)
        if number is None:
            row = {"subject": layout.subject, "part": layout.part, "layout": layout_bytes(layout)}
            done = connection.execute(insert(stream).values(recording=self._target.id, **row))
            key = done.inserted_primary_key
            assert key is not None
            number = int(key[0])
            self._streams[layout] = number
        if len(self._by_identity) >= 256:  # a caller that makes its layouts anew at every step
            self._by_identity.clear()
        self._by_identity[id(layout)] = (layout, number)
        return number

    def _touch(self, connection: Connection, **values: object) -> None:
        self._beat = time.monotonic()
        touch(connection, self._target.id, **values)


def _step_block(record: StepRecord) -> Block:
    return Block(STEP_LAYOUT, np.array([[float(record.skipped)]]))


def _earlier_blocks(record: StepRecord) -> list[Block]:
    return [replace(block, layout=earlier_layout(block.layout)) for block in record.blocks]


def _scalar_blocks(record: StepRecord, known: dict[str, Layout], first: int) -> list[Block]:
    """The record's scalars, by the streams that hold them; names that are not known get a stream, and are from now."""
    if not record.scalars:
        return []
    values = {name: float(value) for name, value in record.scalars.items()}
    if fresh := tuple(name for name in values if name not in known):
        part = max((layout.part for layout in known.values()), default=first - 1) + 1
        known.update(dict.fromkeys(fresh, Layout(SCALAR, fresh, ("value",), ("float64",), part=part)))
    layouts = dict.fromkeys(known[name] for name in values)
    return [_scalar_block(layout, values) for layout in layouts]


def _scalar_block(layout: Layout, values: Mapping[str, float]) -> Block:
    column = np.array([[values.get(name, 0.0)] for name in layout.sites])
    present = np.array([name in values for name in layout.sites])
    return Block(layout, column, present)


def claim(connection: Connection, run: Run, rank: int, place: str) -> tuple[int, Run]:
    """The number of the recording that this process now writes, and the run as that recording knows it.

    Raises:
        StoreUnavailable: Another living writer has it.
    """
    ours = (recording.c.run == run.id) & (recording.c.rank == rank)
    query = select(recording.c.id, recording.c.state, recording.c.writer, recording.c.updated_at).where(ours)
    if (row := connection.execute(query).one_or_none()) is not None:
        if row.state == "running" and is_alive(row.writer, row.updated_at):
            raise StoreUnavailable(
                f"rank {rank} of run {run.id!r} in {place} is being written by {describe(row.writer)}; "
                f"one rank has one writer: wait for it, or begin another run"
            )
        touch(connection, row.id, state="running", error="", writer=identity())
        return row.id, summarise_recording(connection, row.id).run
    values = {
        "run": run.id,
        "rank": rank,
        "name": run.name,
        "kind": run.kind,
        "framework": run.framework,
        "parent": run.parent,
        "state": "running",
        "error": "",
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "last_step": -1,
        "revision": 0,
        "writer": identity(),
        "config": to_json(run.config),
        "tags": to_json(run.tags),
        "host": to_json(machine() | dict(run.host)),
    }
    key = connection.execute(insert(recording).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0]), summarise_recording(connection, int(key[0])).run
