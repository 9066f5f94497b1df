"""Drains what trainings have published into a store; several collectors share the work, and each may die at any moment.

A message is acknowledged only when it is stored. Its number is stored in the same transaction, in the ledger of its
recording, so one that comes again is recognised, by whichever collector; and one that is missing as well.
"""

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..database.database_store import DatabaseStore
from ..database.rank_recording import StoredMessage
from ..database.recording_writer import RecordingWriter
from ..errors import StoreError, StoreTooNew, StoreUnavailable
from ..records import Event
from ..run_info import Run, Structure
from ..schema.ledger import Feed
from ..writing.losses import EVENT
from ..writing.retrying_writer import error_text, is_passing
from .incoming import Arrived, Incoming, Recording
from .messages import Alive, Attacked, Begun, Closed, Message, Noted, Said, Sender, Written
from .transport import Delivery, Subscription

_log = logging.getLogger(__name__)
#: Records that share a transaction, as in `backlog.py`.
_MOST_RECORDS: Final = 64
#: Seconds between two tries of a store that refuses, doubled up to the second (our choice).
_RETRY_S, _MOST_RETRY_S = 0.5, 5.0
#: Seconds of storing before what is stored is acknowledged: a broker that hears nothing for long gives it to others.
_STORING_S: Final = 1.0
#: Seconds of housekeeping between two looks for messages, and after which the writer of a silent recording is released.
_UPKEEP_S, _SILENT_S = 0.2, 60.0
#: Former writers of a recording that are remembered besides the last (our choice).
_MOST_FORMER: Final = 15
#: What the event of missing records says.
_MISSING: Final = "messages were removed at the broker before they were collected"


@dataclass(slots=True)
class Counts:
    """What a collector has done.

    Args:
        messages, records: That it has stored.
        again: Messages that came again and were stored already.
        missing: Records that are missing for good.
        damaged: Messages that could not be read.
    """

    messages: int = 0
    records: int = 0
    again: int = 0
    missing: int = 0
    damaged: int = 0


@dataclass(slots=True)
class _Refusal:
    """When a store that has refused is asked again."""

    pause_s: float = _RETRY_S
    due: float = 0.0


@dataclass(slots=True, eq=False)
class _Open:
    """A writer that is open, the token of the training's that it was opened for, and when it was used last."""

    writer: RecordingWriter
    token: str
    used_at: float


@dataclass(slots=True)
class _Round:
    """What was stored since the store was last known to be durable."""

    stored: dict[Recording, list[Arrived]] = field(default_factory=dict)
    useless: list[Delivery] = field(default_factory=list)


class Collector:
    """Stores the messages of one subscription.

    Args:
        store: A folder or a database.
        most_open: Recordings whose writers stay open: each has four files in a folder.
        said: Takes the last words of ranks as they arrive: run, rank and text.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        subscription: Subscription,
        store: DatabaseStore,
        *,
        most_open: int = 128,
        said: Callable[[str, int, str], None] = lambda run, rank, text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subscription, self._store, self._most_open, self._clock = subscription, store, most_open, clock
        self._incoming, self._said = Incoming(), said
        self._open: OrderedDict[Recording, _Open] = OrderedDict()
        self._untidy: OrderedDict[Recording, None] = OrderedDict()
        self._refused: dict[Recording, _Refusal] = {}
        self._round = _Round()
        self._fault = ""
        self.counts = Counts()

    def run(self, *, until_empty: bool = False, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Collect until told to stop or, with `until_empty`, until nothing waits.

        Raises:
            StoreTooNew: A newer mindscope sent a message.
        """
        try:
            while not should_stop():
                has_work = self.step()
                if until_empty and not has_work and self._is_empty():
                    return
        finally:
            self.close()

    def step(self, timeout_s: float = 0.5) -> bool:
        """Store what has arrived, waiting at most so long for it; return whether there was or is anything to do."""
        has_come = self._receive(timeout_s)
        began = self._clock()
        for key in self._incoming.recordings():
            refusal = self._refused.get(key)
            if refusal is None or self._clock() >= refusal.due:
                self._store_waiting(key)
            if self._clock() - began > _STORING_S:
                break
        self._pass_words()
        self._settle()
        self._keep_up()
        return has_come or bool(len(self._incoming))

    def close(self) -> None:
        """Release the writers, and give back what is not stored."""
        for key in tuple(self._open):
            self._release(key)
        self._subscription.close()

    def _is_empty(self) -> bool:
        try:
            return self._subscription.is_empty()
        except StoreUnavailable as error:
            self._tell(str(error))
            return False

    def _receive(self, timeout_s: float) -> bool:
        """Take frames from the broker; return whether there were any."""
        waiting = self._incoming.recordings()
        wait_s = 0.0 if any(key not in self._refused for key in waiting) else timeout_s if not waiting else _RETRY_S / 2
        deliveries: list[Delivery] = []
        try:
            deliveries = self._subscription.receive(wait_s)
        except StoreUnavailable as error:
            self._tell(str(error))
            time.sleep(timeout_s)
        for key in self._incoming.forget(self._subscription.take_revoked()):
            self._release(key)
            self._refused.pop(key, None)
        self._round.useless += self._incoming.take(deliveries)
        self.counts.damaged = self._incoming.damaged
        return bool(deliveries)

    def _pass_words(self) -> None:
        """Pass the last words on; what fails there never stops the records."""
        for message in self._incoming.take_said():
            try:
                if isinstance(message.content, Said):
                    self._said(message.sender.run, message.sender.rank, message.content.text)
            except Exception as error:  # noqa: BLE001  the records are worth more
                _log.warning("run %s, rank %d: its last word is lost: %s", *_key(message), error_text(error))

    def _store_waiting(self, key: Recording) -> None:
        """Store what waits of a recording, in its order, as far as the store takes it."""
        waiting = self._incoming.of(key)
        group: list[Arrived] = []
        try:
            while waiting:
                group = _next_group(waiting)
                self._store_group(key, group)
                self._round.stored.setdefault(key, []).extend(group)
                group = []
            self._refused.pop(key, None)
        except Exception as error:  # noqa: BLE001  one recording never stops the others
            self._incoming.put_back(key, group)
            self._refuse(key, error)

    def _store_group(self, key: Recording, group: Sequence[Arrived]) -> None:
        """Store messages that share a transaction; a message that no store would take is left out and told."""
        try:
            self._do(key, [arrived.message for arrived in group])
        except Exception as error:
            if isinstance(error, StoreTooNew) or is_passing(error):
                raise
            self._release(key)
            if len(group) > 1:
                for arrived in group:
                    self._store_group(key, [arrived])
                return
            self._leave_out(key, group[0].message, error)

    def _do(self, key: Recording, messages: Sequence[Message]) -> None:
        """Do on the store what those of the messages say that are not stored yet."""
        fresh = deque(messages)
        while fresh and (
            (writer := self._writer(key, fresh[0])) is None or writer.feed.has(fresh[0].sender.token, fresh[0].number)
        ):
            fresh.popleft()
            self.counts.again += 1
        if not fresh or writer is None:
            return
        self._tell_missing(key, writer, fresh[0])
        writer.mark(_after(writer.feed, fresh[-1]))
        _perform(writer, fresh)
        self.counts.messages += len(fresh)
        self.counts.records += sum(map(_records, fresh))
        self._fault = ""
        self._untidy[key] = None
        if isinstance(fresh[-1].content, Closed):
            self._forget_writer(key)

    def _writer(self, key: Recording, message: Message) -> RecordingWriter | None:
        """Return the writer of a recording, opened where it was left; None if the message is stored already."""
        sender = message.sender
        known = self._open.get(key)
        if known is not None and known.token == sender.token:
            known.used_at = self._clock()
            self._open.move_to_end(key)
            return known.writer
        self._release(key)
        while len(self._open) >= self._most_open:
            self._release(next(iter(self._open)))
        run = message.content.run if isinstance(message.content, Begun) else _run_of(sender)
        writer = self._store.feed_run(
            run, sender.rank, process=sender.process, writer=sender.token, number=message.number
        )
        if writer is not None:
            self._open[key] = _Open(writer, sender.token, self._clock())
        return writer

    def _tell_missing(self, key: Recording, writer: RecordingWriter, message: Message) -> None:
        """Record that messages before this one are missing, if they are."""
        feed = writer.feed
        is_known = feed.writer == message.sender.token
        if message.number == (feed.number + 1 if is_known else 0):
            return
        count = message.records_before - (feed.records if is_known else 0)
        writer.mark(_at(feed, message, message.number - 1, message.records_before))
        self._tell_lost(key, writer, count, _step_of(message), _MISSING)

    def _leave_out(self, key: Recording, message: Message, error: Exception) -> None:
        """Go on behind a message that the store refuses for good; its records are counted."""
        writer = self._writer(key, message)
        if writer is None:
            return
        writer.mark(_after(writer.feed, message))
        self._tell_lost(key, writer, _records(message), _step_of(message), error_text(error))

    def _tell_lost(self, key: Recording, writer: RecordingWriter, count: int, step: int, reason: str) -> None:
        _log.error("run %s, rank %d: %d records before step %d are missing: %s", *key, count, step, reason)
        if count:
            self.counts.missing += count
            writer.write_events([Event(EVENT, step, data={"count": count, "sites": 0, "error": reason})])
        else:
            writer.touch()

    def _settle(self) -> None:
        """Acknowledge what is stored, once that is durable."""
        finished, self._round = self._round, _Round()
        stored = [delivery for group in finished.stored.values() for one in group for delivery in one.deliveries]
        if not stored and not finished.useless:
            return
        try:
            if finished.stored:
                self._store.flush([_last(key, group) for key, group in finished.stored.items()])
        except StoreError as error:
            self._take_back(finished, error)
            return
        try:
            self._subscription.acknowledge([*stored, *finished.useless])
        except StoreUnavailable as error:  # then they come again, and are recognised
            self._tell(str(error))

    def _take_back(self, finished: _Round, error: Exception) -> None:
        """Store again, as far as it is not stored, what the store may have lost."""
        for key, group in finished.stored.items():
            self._incoming.put_back(key, group)
        self._round.useless += finished.useless
        for key in finished.stored:
            self._refuse(key, error)

    def _refuse(self, key: Recording, error: Exception) -> None:
        """Let a recording wait until the store is asked again; what a server has lost meanwhile is stored again."""
        if isinstance(error, StoreTooNew):
            raise error
        self._tell(error_text(error))
        self._release(key)
        refusal = self._refused.setdefault(key, _Refusal(_RETRY_S / 2))
        refusal.pause_s = min(2 * refusal.pause_s, _MOST_RETRY_S)
        refusal.due = self._clock() + refusal.pause_s

    def _keep_up(self) -> None:
        """Compact what was written, for a bounded time, and release the writers of recordings that are silent."""
        began = self._clock()
        while self._untidy:
            key, _ = self._untidy.popitem(last=False)
            known = self._open.get(key)
            try:
                if known is not None and known.writer.maintain():
                    self._untidy[key] = None
            except StoreError as error:
                self._tell(error_text(error))
                self._release(key)
            if self._clock() - began > _UPKEEP_S:
                break
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if self._clock() - oldest.used_at < _SILENT_S:
                return
            self._release(key)

    def _release(self, key: Recording) -> None:
        """Close the writer of a recording, which another one goes on with."""
        writer = self._forget_writer(key)
        if writer is not None:
            try:
                writer.release()
            except StoreError as error:
                _log.debug("run %s, rank %d: %s", *key, error)

    def _forget_writer(self, key: Recording) -> RecordingWriter | None:
        self._untidy.pop(key, None)
        known = self._open.pop(key, None)
        return None if known is None else known.writer

    def _tell(self, words: str) -> None:
        """Log what does not work now, once."""
        if words != self._fault:
            self._fault = words
            _log.warning("%s; trying again", words)


def _next_group(waiting: deque[Arrived]) -> list[Arrived]:
    """Take the next messages that share a transaction: writes of one sender in a row, up to some records, or one."""
    group = [waiting.popleft()]
    records = _records(group[0].message)
    while waiting and all(isinstance(one.message.content, Written) for one in (group[-1], waiting[0])):
        before, after = group[-1].message, waiting[0].message
        records += _records(after)
        if records > _MOST_RECORDS or after.sender != before.sender or after.number != before.number + 1:
            break
        group.append(waiting.popleft())
    return group


def _last(key: Recording, group: Sequence[Arrived]) -> StoredMessage:
    """Return the last of these messages of a recording."""
    message = group[-1].message
    return StoredMessage(*key, message.sender.token, message.number)


def _at(feed: Feed, message: Message, number: int, records: int) -> Feed:
    """Return how far a recording has come with a message of this number and so many records."""
    token = message.sender.token
    former = feed.former if feed.writer in ("", token) else (*feed.former[-_MOST_FORMER:], feed.writer)
    return Feed(token, number, records, former)


def _after(feed: Feed, message: Message) -> Feed:
    return _at(feed, message, message.number, message.records_before + _records(message))


def _key(message: Message) -> Recording:
    return message.sender.run, message.sender.rank


def _records(message: Message) -> int:
    return len(message.content.records) if isinstance(message.content, Written) else 0


def _step_of(message: Message) -> int:
    """Return the step of the message's first record; 0 if it has none."""
    records = message.content.records if isinstance(message.content, Written) else ()
    return records[0].step if records else 0


def _run_of(sender: Sender) -> Run:
    """Return what is known of a run whose beginning is missing."""
    now = time.time()
    return Run(sender.run, sender.name, "running", now, now, ranks=(sender.rank,))


def _perform(writer: RecordingWriter, messages: Sequence[Message]) -> None:
    """Do one message, or several writes at once."""
    content = messages[0].content
    match content:
        case Written():
            writes = [message.content for message in messages if isinstance(message.content, Written)]
            writer.write(
                [record for write in writes for record in write.records],
                [finding for write in writes for finding in write.findings],
                [record for write in writes for record in write.earlier],
            )
        case Structure():
            writer.write_structure(content)
        case Noted(events):
            writer.write_events(events)
        case Attacked(outcomes):
            writer.write_outcomes(outcomes)
        case Closed(state, error):
            writer.close(state, error)
        case Begun() | Alive():
            writer.touch()
