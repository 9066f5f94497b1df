"""Kafka as a transport: a topic for each project, a consumer group of its collectors.

Kafka shares the partitions among the collectors and keeps how far each is stored. It forgets messages by their age or
size, collected or not; what is gone before it was collected is counted by the numbers of the messages.
"""

import ctypes
import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ..errors import InvalidName, StoreUnavailable
from .transport import FRAME_BYTES, Address, Closing, Delivery, asked_of, parse_address, partition_of

_log = logging.getLogger(__name__)
_FAILURES: Final = (KafkaException, BufferError)
#: Seconds for which the broker may leave a question unanswered (our choice).
_ANSWER_S: Final = 4.0
#: Frames that are taken at a time, those that a collector may hold, and kilobytes that are fetched in advance.
_BATCH, _MOST_HELD, _FETCHED_KB = 256, 2048, 32 << 10
#: Seconds of silence after which the broker gives a collector's partitions to others.
_GONE_S: Final = 6.0
_OPTIONS: Final = ("partitions", "replicas")
#: Why an offset is refused while the group shares its partitions anew.
_REBALANCING: Final = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)


class KafkaTransport:
    """A project at a Kafka cluster. Options with a dot in their name are the client's, as `security.protocol`."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url, _OPTIONS, is_open=True)
        self.url = str(self._address)
        if self._address.user and not self._address.password:
            raise InvalidName(f"{self.url}: Kafka expects user:password before the host, got a single word")

    def check(self) -> None:
        """Make the topic if it is not there yet."""
        _partitions(self._address)

    def publisher(self, recording: str) -> "KafkaPublisher":
        """Return the publisher of a recording, connected."""
        return KafkaPublisher(self._address, recording)

    def subscription(self) -> "KafkaSubscription":
        """Return a member of the project's consumer group."""
        return KafkaSubscription(self._address)


def _topic(address: Address) -> str:
    return f"mindscope.{address.project}"


def _settings(address: Address) -> dict[str, Any]:  # Any: values of the client's settings
    """Return the settings of every client of this broker."""
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in address.hosts),
        "client.id": "mindscope",
        "log_level": 0,  # it would write to stderr, which is the training's
        "error_cb": lambda error: _log.debug("%s: %s", address, error),
        "socket.timeout.ms": int(_ANSWER_S * 1000),
    }
    if address.user:
        settings |= {"sasl.username": address.user, "sasl.password": address.password}
        settings |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    return settings | {name: value for name, value in address.options.items() if "." in name}


def _partitions(address: Address) -> int:
    """Return how many partitions the project's topic has; make it if it is not there yet.

    Raises:
        StoreUnavailable: The broker does not answer, or refuses the topic.
    """
    topic = _topic(address)
    with asked_of(str(address), _FAILURES):
        admin = AdminClient(_settings(address))
        if topic not in admin.list_topics(timeout=_ANSWER_S).topics:
            _create(admin, topic, address)
        found = admin.list_topics(topic, timeout=_ANSWER_S).topics[topic]
    if found.error is not None or not found.partitions:
        raise StoreUnavailable(f"{address}: topic {topic} cannot be used: {found.error or 'it has no partitions'}")
    return len(found.partitions)


def _create(admin: AdminClient, topic: str, address: Address) -> None:
    wanted = NewTopic(topic, address.partitions(), address.number("replicas", 1, 16))
    try:
        admin.create_topics([wanted], request_timeout=_ANSWER_S)[topic].result()
    except KafkaException as error:  # another was faster, or the broker makes topics only by itself
        _log.debug("%s: topic %s: %s", address, topic, error)


class KafkaPublisher(Closing):
    """Publishes to the partition of one recording, and waits until all replicas have it."""

    def __init__(self, address: Address, recording: str) -> None:
        self._address, self._topic = address, _topic(address)
        self._partition = partition_of(recording, _partitions(address))
        self._producer: Producer | None = None
        self._pid = os.getpid()
        self.frame_bytes = FRAME_BYTES

    def publish(self, key: str, frames: Sequence[bytes]) -> None:
        """Publish a message; return when the broker has it."""
        if os.getpid() != self._pid:
            raise StoreUnavailable(f"{self._address}: this connection belongs to process {self._pid}")
        failed: list[KafkaError] = []
        delivered = [0]

        def told(error: KafkaError | None, _message: Message) -> None:
            delivered[0] += error is None
            failed.extend(() if error is None else (error,))

        with asked_of(str(self._address), _FAILURES):
            try:
                producer = self._connected()
                for frame in frames:
                    producer.produce(self._topic, frame, key, self._partition, on_delivery=told)
                producer.flush(_ANSWER_S + 1.0)
            except _FAILURES:
                self._drop()
                raise
        if delivered[0] < len(frames):
            self._drop()
            words = failed[0].str() if failed else f"no answer within {_ANSWER_S:.0f} s"
            raise StoreUnavailable(f"{self._address} does not take messages: {words}")

    def idle(self) -> None:
        """Let the client do what is due."""
        if self._producer is not None and os.getpid() == self._pid:
            self._producer.poll(0)

    def close(self) -> None:
        """Close the connection."""
        if os.getpid() == self._pid:
            self._drop()

    def _connected(self) -> Producer:
        if self._producer is None:
            more = {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": int(_ANSWER_S * 1000),
                "request.timeout.ms": int(_ANSWER_S * 1000),
            }
            self._producer = Producer(more | _settings(self._address))
            _clients.append(self._producer)
        return self._producer

    def _drop(self) -> None:
        """Forget the client and what it has not sent: it is published again, by another one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(blocking=False)
            _clients.remove(producer)


#: The clients of this process. Their threads do not live on in a forked child, where nothing may end them either.
_clients: list[Producer | Consumer] = []


def _abandon() -> None:
    for client in _clients:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _clients.clear()


os.register_at_fork(after_in_child=_abandon)


@dataclass(slots=True)
class _Outstanding:
    """Offsets of a partition that were delivered, in their order, and those of them that are stored.

    Attributes:
        due: The offset behind all that is stored without a gap, until it is committed.
    """

    delivered: deque[int] = field(default_factory=deque)
    stored: set[int] = field(default_factory=set)
    due: int | None = None

    def advance(self) -> None:
        """Let `due` be behind all that is stored without a gap."""
        while self.delivered and self.delivered[0] in self.stored:
            offset = self.delivered.popleft()
            self.stored.discard(offset)
            self.due = offset + 1


class KafkaSubscription(Closing):
    """One of the collectors of a project; `transport.py` has its promises."""

    def __init__(self, address: Address) -> None:
        self._address, self._topic = address, _topic(address)
        self._outstanding: dict[int, _Outstanding] = {}
        self._revoked: set[int] = set()
        self._taken: list[Delivery] = []
        self._is_paused = False
        more = {
            "group.id": f"mindscope-{address.project}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": int(_GONE_S * 1000),
            "heartbeat.interval.ms": 1000,
            "queued.max.messages.kbytes": _FETCHED_KB,
        }
        self._consumer = Consumer(more | _settings(address))
        _clients.append(self._consumer)
        self._consumer.subscribe([self._topic], on_revoke=self._lose, on_lost=self._lose)

    def receive(self, timeout_s: float) -> list[Delivery]:
        """Return what has arrived, waiting at most `timeout_s` seconds for it."""
        self._taken = []
        held = sum(len(known.delivered) for known in self._outstanding.values())
        with asked_of(str(self._address), _FAILURES):
            if held > _MOST_HELD:
                self._consumer.pause(self._consumer.assignment())
            elif self._is_paused:
                self._consumer.resume(self._consumer.assignment())
            self._is_paused = held > _MOST_HELD
            with suppress(KafkaException):  # it stays due; what has arrived is read all the same
                self._commit()
            first = self._consumer.poll(timeout_s)
            if first is not None:
                self._take(first)
                for message in self._consumer.consume(_BATCH, 0.0):
                    self._take(message)
        return self._taken

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Commit the offsets up to which all is stored."""
        for delivery in deliveries:
            known = self._outstanding.get(delivery.partition)
            if known is not None and isinstance(delivery.receipt, int):
                known.stored.add(delivery.receipt)
        for known in self._outstanding.values():
            known.advance()
        with asked_of(str(self._address), _FAILURES):
            self._commit()

    def take_revoked(self) -> frozenset[int]:
        """Return the partitions that were revoked since the last call."""
        taken, self._revoked = frozenset(self._revoked), set()
        return taken

    def is_empty(self) -> bool:
        """Return whether the group has stored all that is in the topic."""
        places = [TopicPartition(self._topic, number) for number in range(_partitions(self._address))]
        with asked_of(str(self._address), _FAILURES):
            stored = self._consumer.committed(places, timeout=_ANSWER_S)
            for place in stored:
                low, high = self._consumer.get_watermark_offsets(place, timeout=_ANSWER_S)
                if high > max(low, place.offset):
                    return False
        return True

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
        _clients.remove(self._consumer)

    def _commit(self) -> None:
        """Commit what is due; what is refused stays due, until it is taken or its partition is revoked."""
        due = [
            (known, TopicPartition(self._topic, number, known.due))
            for number, known in self._outstanding.items()
            if known.due is not None
        ]
        if not due:
            return
        try:
            self._consumer.commit(offsets=[place for _, place in due], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in _REBALANCING:  # ended by the next poll, after which this may be another's
                _log.debug("%s: %s", self._address, error)
                return
            raise
        for known, _ in due:
            known.due = None

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                _log.debug("%s: %s", self._address, error)
                time.sleep(0.1)
            return
        partition, offset, data = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        self._outstanding.setdefault(partition, _Outstanding()).delivered.append(offset)
        self._taken.append(Delivery(partition, data if isinstance(data, bytes) else b"", offset))

    def _lose(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Forget what was delivered of partitions that another collector may have now."""
        lost = {place.partition for place in partitions}
        self._revoked |= lost
        self._taken = [delivery for delivery in self._taken if delivery.partition not in lost]
        for number in lost:
            self._outstanding.pop(number, None)
