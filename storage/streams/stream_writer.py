"""The `RunWriter` that publishes: each call becomes a message, which a collector does again on its store."""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import StoreError
from ..process import identity
from ..records import Event, Finding, Key, Outcome, StepRecord, check_earlier, check_order
from ..run_info import Run, RunState, Structure
from ..store import MissingRecords
from ..writing.backlog import item_bytes
from .messages import (
    Alive,
    Attacked,
    Begun,
    Closed,
    Content,
    Message,
    Noted,
    Sender,
    Written,
    encode_message,
    frames_of,
)
from .transport import Publisher

#: Seconds between two words of a training that has nothing to write.
_ALIVE_S = 10.0
#: Bytes of blocks of one message, about; our choice: a message of a large model has one record.
_MESSAGE_BYTES = 8 << 20


@dataclass(slots=True, eq=False)
class _Sent:
    """A message that the broker may have.

    Args:
        first: The record or observation that its content begins with, of which it is known when it comes again.
        records: How many it has.
        last, joined_last: (step, micro-step) of the newest record, and of the newest observation, once it is there.
    """

    key: str
    frames: list[bytes]
    first: StepRecord | None
    records: int
    last: Key
    joined_last: Key


class StreamWriter:
    """Publishes one rank of one run, each message after the one before was taken; inert in a forked child.

    A message whose fate is unknown is published again, as it was, before anything else: messages have no gaps. When the
    same batch comes again after that, what of it has arrived is left out.

    Args:
        publisher: Of this recording, used by this writer alone.
    """

    def __init__(self, run: Run, rank: int, publisher: Publisher) -> None:
        self._run, self._publisher = run, publisher
        self._sender = Sender(run.id, rank, run.name, identity(), secrets.token_hex(8))
        self._pid = os.getpid()
        self._closed = False
        self._number = self._records = 0
        self._last = self._joined_last = (-1, 0)
        self._doubtful: _Sent | None = None
        self._arrived: list[_Sent] = []  # of a batch that has failed half way, and comes again
        self._missing: MissingRecords | None = None
        self._spoken_at = time.monotonic()
        self._publish(Begun(run))

    @property
    def run(self) -> Run:
        """The run as it was begun; at its end, as it has ended."""
        return self._run

    def write_structure(self, structure: Structure) -> None:
        """Publish the structure, which holds for the records after it."""
        self._publish(structure)

    def write(
        self, records: Sequence[StepRecord], findings: Sequence[Finding] = (), earlier: Sequence[StepRecord] = ()
    ) -> None:
        """Publish records, findings and further observations of earlier records.

        Raises:
            StoreError: A record does not come after the last one; nothing was published.
            StoreUnavailable: The broker does not take all of it now; to be called again with the same batch.
        """
        self._check_open()
        self._settle()
        batch = list(_in_messages(records, findings, earlier))
        self._forget_others(batch)
        batch = [self._without_arrived(content) for content in batch]
        last = check_order(self._run.id, self._last, [record for content in batch for record in content.records])
        after = [record for content in batch for record in content.earlier]
        check_earlier(self._run.id, self._joined_last, last, after)
        for content in batch:
            if content.records or content.findings or content.earlier:
                self._publish(content)
        if records or earlier:
            self._arrived.clear()

    def preview(self, record: StepRecord) -> None:
        """Do nothing: what is not final is not worth a message."""

    def write_events(self, events: Sequence[Event]) -> None:
        """Publish events that belong to no record."""
        self._publish(Noted(tuple(events)))

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Publish outcomes of attacks."""
        self._publish(Attacked(tuple(outcomes)))

    def maintain(self) -> bool:
        """Keep the connection, and say every ten seconds that the training still runs; return False."""
        if self._closed or os.getpid() != self._pid:
            return False
        if time.monotonic() - self._spoken_at > _ALIVE_S:
            self._publish(Alive())
        else:
            self._publisher.idle()
        return False

    def make_room(self) -> None:
        """Do nothing: the broker's disk is not ours."""

    def take_missing(self) -> MissingRecords | None:
        """Return, as fewer than none, records that were refused and have arrived all the same."""
        missing, self._missing = self._missing, None
        return missing

    def close(self, state: RunState = "finished", error: str = "") -> None:
        """Publish how the run ended and close the connection; a second call does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        try:
            self._publish(Closed(state, error))
            self._run = replace(self._run, state=state, error=error, last_step=self._last[0], updated_at=time.time())
            self._forget_others(())
        finally:
            self._closed = True
            self._publisher.close()

    def _publish(self, content: Content) -> None:
        """Publish a message with the next number, after the one that is in doubt."""
        self._check_open()
        self._settle()
        message = Message(self._sender, self._number, self._records, content)
        frames = [frame.to_bytes() for frame in frames_of(encode_message(message), self._publisher.frame_bytes)]
        first, records, last, joined = None, 0, self._last, self._joined_last
        if isinstance(content, Written):
            first, records = _first(content), len(content.records)
            last = check_order(self._run.id, last, content.records)
            joined = check_earlier(self._run.id, joined, last, content.earlier)
        self._doubtful = _Sent(message.key, frames, first, records, last, joined)
        self._settle()

    def _settle(self) -> None:
        """Publish the message that is in doubt, until it is known that the broker has it."""
        sent = self._doubtful
        if sent is None:
            return
        self._publisher.publish(sent.key, sent.frames)
        self._doubtful = None
        self._number += 1
        self._records += sent.records
        self._last, self._joined_last = sent.last, sent.joined_last
        self._spoken_at = time.monotonic()
        if sent.first is not None:
            self._arrived.append(sent)

    def _forget_others(self, batch: Sequence[Written]) -> None:
        """Count what has arrived of a batch that was given up, when another one comes."""
        firsts = [_first(content) for content in batch]
        if batch and all(first is None for first in firsts):
            return  # findings alone
        for sent in self._arrived:
            if sent.records and not any(sent.first is first for first in firsts):
                step = sent.last[0]
                before = self._missing or MissingRecords(0, step, step)
                self._missing = MissingRecords(before.count - sent.records, before.first_step, step)
        self._arrived = [sent for sent in self._arrived if any(sent.first is first for first in firsts)]

    def _without_arrived(self, content: Written) -> Written:
        """Return this part of a batch; if it has arrived when the batch came before, only its findings, which may be
        more by now."""
        first = _first(content)
        has_arrived = first is not None and any(sent.first is first for sent in self._arrived)
        return Written(findings=content.findings) if has_arrived else content

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"run {self._run.id!r} is closed; nothing more can be written to it")
        if os.getpid() != self._pid:
            raise StoreError(f"run {self._run.id!r} belongs to process {self._pid}; this is its forked child")


def _first(content: Written) -> StepRecord | None:
    return next(iter((*content.records, *content.earlier)), None)


def _in_messages(
    records: Sequence[StepRecord], findings: Sequence[Finding], earlier: Sequence[StepRecord]
) -> Iterator[Written]:
    """Yield a batch in messages of bounded size; findings and observations of earlier records come with the last."""
    few: list[StepRecord] = []
    size = 0
    for record in records:
        more = item_bytes(record)
        if few and size + more > _MESSAGE_BYTES:
            yield Written(tuple(few))
            few, size = [], 0
        few.append(record)
        size += more
    if few or findings or earlier:
        yield Written(tuple(few), tuple(findings), tuple(earlier))
