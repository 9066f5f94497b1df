"""Frames that have arrived, as messages in the order of each recording."""

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..errors import StoreDamaged
from .messages import Frame, Message, Said, decode_message, join_frames, read_frame
from .transport import Delivery

_log = logging.getLogger(__name__)
#: Seconds after which a message is given up whose other frames do not come: its sender died in the midst of it.
_PATIENCE_S: Final = 600.0

#: A run and a rank.
Recording = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """A message and the frames that it came in, to be acknowledged when it is stored."""

    message: Message
    deliveries: tuple[Delivery, ...]


@dataclass(slots=True)
class _Parts:
    frames: dict[int, Frame] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    at: float = 0.0


class Incoming:
    """Messages that are not stored yet.

    Args:
        clock: A monotonic clock in seconds.

    Attributes:
        damaged: How many messages could not be read.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: dict[tuple[int, int], _Parts] = {}  # by partition and message
        self._waiting: OrderedDict[Recording, deque[Arrived]] = OrderedDict()
        self._partition: dict[Recording, int] = {}
        self._said: list[Message] = []
        self.damaged = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Take what has arrived; return frames of which nothing will come, to be acknowledged at once.

        Raises:
            StoreTooNew: A newer mindscope sent it.
        """
        useless: list[Delivery] = []
        for delivery in deliveries:
            try:
                arrived = self._joined(delivery, read_frame(delivery.data))
            except StoreDamaged as error:
                _log.error("a message of %d bytes is left out: %s", len(delivery.data), error)
                self.damaged += 1
                useless.append(delivery)
                continue
            if arrived is not None and isinstance(arrived.message.content, Said):
                self._said.append(arrived.message)
                useless += arrived.deliveries  # the next word is newer
            elif arrived is not None:
                key = arrived.message.sender.run, arrived.message.sender.rank
                self._waiting.setdefault(key, deque()).append(arrived)
                self._partition[key] = delivery.partition
        return useless + self._given_up()

    def take_said(self) -> list[Message]:
        """Take the last words that have arrived: of each rank the newest."""
        newest = {(message.sender.run, message.sender.rank): message for message in self._said}
        self._said = []
        return list(newest.values())

    def recordings(self) -> list[Recording]:
        """Return the recordings of which messages wait, those first whose turn was longest ago."""
        return [key for key, waiting in self._waiting.items() if waiting]

    def of(self, key: Recording) -> deque[Arrived]:
        """Return what waits of a recording, oldest first, for the caller to take out; then it is the turn of others."""
        waiting = self._waiting.setdefault(key, deque())
        self._waiting.move_to_end(key)
        return waiting

    def put_back(self, key: Recording, arrived: Sequence[Arrived]) -> None:
        """Put messages back before those that wait."""
        self.of(key).extendleft(reversed(arrived))

    def forget(self, partitions: Iterable[int]) -> Iterator[Recording]:
        """Forget what waits of partitions that another collector has; yield their recordings."""
        lost = set(partitions)
        self._parts = {key: parts for key, parts in self._parts.items() if key[0] not in lost}
        for key in [key for key, partition in self._partition.items() if partition in lost]:
            self._waiting.pop(key, None)
            del self._partition[key]
            yield key

    def _joined(self, delivery: Delivery, frame: Frame) -> Arrived | None:
        """Return the message if this was its last frame."""
        if frame.parts == 1:
            return Arrived(decode_message(join_frames([frame])), (delivery,))
        key = delivery.partition, frame.message
        parts = self._parts.setdefault(key, _Parts())
        parts.frames[frame.part] = frame
        parts.deliveries.append(delivery)  # also one that came twice
        parts.at = self._clock()
        if len(parts.frames) < frame.parts:
            return None
        del self._parts[key]
        try:
            data = join_frames([parts.frames[part] for part in range(frame.parts)])
            return Arrived(decode_message(data), tuple(parts.deliveries))
        except StoreDamaged:
            parts.deliveries.pop()  # the caller has it
            self._parts[key] = parts  # given up later
            raise

    def _given_up(self) -> list[Delivery]:
        now = self._clock()
        old = [key for key, parts in self._parts.items() if now - parts.at > _PATIENCE_S]
        if old:
            _log.warning("%d messages of which only a part has come are left out: their senders are gone", len(old))
        return [delivery for key in old for delivery in self._parts.pop(key).deliveries]
