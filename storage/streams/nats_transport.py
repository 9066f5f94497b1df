"""NATS JetStream as a transport: a work queue whose subjects are the partitions of a project.

The server allows one consumer of a partition in a work queue, and removes one that asks for nothing for some seconds.
So whoever has the consumer has the partition, without a lock of ours, and a collector that died or is cut off loses it.
Collectors tell each other that they are there, and each takes its share.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as ClientSubscription
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError

from ..errors import StoreUnavailable
from .nats_connection import (
    ANSWER_S,
    FAILURES,
    OPTIONS,
    NatsConnection,
    ensure_stream,
    stream_name,
    subject,
)
from .transport import Address, Closing, Delivery, asked_of, parse_address, partition_of

#: Frames of a message that are on their way to the server at a time.
_AT_ONCE: Final = 4
#: What one request asks for, which is also what a collector may hold of a partition; the seconds for which it stands.
_BATCH, _BATCH_BYTES, _EXPIRES_S = 64, 4 << 20, 3.0
#: Frames that a collector takes at a time, so that it soon asks again.
_AT_A_TIME: Final = 256
#: Seconds without a request after which the server gives a partition to another collector (our choice: a commit of a
#: store that is well takes less), and without a word after which a collector counts as gone.
_INACTIVE_S: Final = 5.0
_GONE_S: Final = 5.0
#: Seconds between two words of a collector, and two tries to get its partitions.
_PRESENCE_S: Final = 1.0
#: Seconds after which the server sends a frame again that was not acknowledged.
_ACKNOWLEDGE_S: Final = 60.0
#: Status of the answers to a request that say that it is over, and those that say that the consumer is gone.
_OVER: Final = ("404", "408", "409")


class NatsTransport:
    """A project at a NATS server or cluster with JetStream."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url, OPTIONS)
        self.url = str(self._address)

    def check(self) -> None:
        """Make the stream if it is not there yet."""
        with NatsConnection(self._address, partial(ensure_stream, self._address)) as connection:
            connection.ask(_nothing)

    def publisher(self, recording: str) -> "NatsPublisher":
        """Return the publisher of a recording, connected."""
        return NatsPublisher(self._address, recording)

    def subscription(self) -> "NatsSubscription":
        """Return a subscription that shares the partitions with others."""
        return NatsSubscription(self._address)


async def _nothing(_client: Client, _jetstream: JetStreamContext) -> None:
    """Ask for no more than the connection, which looks after the stream."""


class NatsPublisher(Closing):
    """Publishes to the partition of one recording, and waits until the server has it on disk."""

    def __init__(self, address: Address, recording: str) -> None:
        self._stream = stream_name(address)
        self._connection = NatsConnection(address, self._prepare)
        self._address = address
        self._partitions = self.frame_bytes = 0  # `_prepare` knows them
        try:
            self._connection.ask(_nothing)
        except BaseException:
            self._connection.close()
            raise
        self._subject = subject(address, partition_of(recording, self._partitions))

    async def _prepare(self, client: Client, jetstream: JetStreamContext) -> None:
        """Make the stream if it is not there, also again if somebody has removed it."""
        self._partitions, self.frame_bytes = await ensure_stream(self._address, client, jetstream)

    def publish(self, key: str, frames: Sequence[bytes]) -> None:
        """Publish a message; return when the server has it."""

        async def send(_client: Client, jetstream: JetStreamContext) -> None:
            for start in range(0, len(frames), _AT_ONCE):
                parts = range(start, min(start + _AT_ONCE, len(frames)))
                await asyncio.gather(
                    *(
                        jetstream.publish(
                            self._subject,
                            frames[part],
                            timeout=ANSWER_S,
                            stream=self._stream,
                            headers={"Nats-Msg-Id": f"{key}.{part}"},
                        )
                        for part in parts
                    )
                )

        self._connection.ask(send, ANSWER_S * (1 + len(frames) // _AT_ONCE))

    def idle(self) -> None:
        """Answer the server's pings."""
        self._connection.idle()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(slots=True, eq=False)
class _Share:
    """A partition that this collector has.

    Args:
        consumer: Its name at the server.
        asked_until: When the last request is over at the latest.
        left: How many messages it may still bring; 0 if it is over.
        in_hand: Bytes of each frame that was delivered and not acknowledged, by its receipt.
        answers: The subscription to what requests bring.
    """

    partition: int
    consumer: str
    asked_until: float = 0.0
    left: int = 0
    in_hand: dict["_Receipt", int] = field(default_factory=dict)
    answers: ClientSubscription | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Receipt:
    share: _Share
    message: Msg


@dataclass(slots=True)
class _Arrived:
    frames: list[Delivery] = field(default_factory=list)
    event: asyncio.Event = field(default_factory=asyncio.Event)


class NatsSubscription(Closing):
    """One of the collectors of a project; `transport.py` has its promises."""

    def __init__(self, address: Address) -> None:
        self._address, self._stream = address, stream_name(address)
        self._name = secrets.token_hex(4)
        self._shares: dict[int, _Share] = {}
        self._others: dict[str, float] = {}  # when each was heard last
        self._revoked: set[int] = set()
        self._arrived = _Arrived()
        self._presence_at = 0.0
        self._count = 0
        self._partitions = 0
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._meeting = f"mindscope.{address.project}.collectors"
        self._connection = NatsConnection(address, self._prepare)  # when it is first used

    def receive(self, timeout_s: float) -> list[Delivery]:
        """Return what has arrived, waiting at most `timeout_s` seconds for it."""

        async def wait(client: Client, jetstream: JetStreamContext) -> list[Delivery]:
            await self._see(client, jetstream)
            await self._request(client, jetstream)
            if not self._arrived.frames:
                with suppress(TimeoutError, asyncio.TimeoutError):
                    await asyncio.wait_for(self._arrived.event.wait(), timeout_s)
            taken, self._arrived.frames = self._arrived.frames[:_AT_A_TIME], self._arrived.frames[_AT_A_TIME:]
            if not self._arrived.frames:
                self._arrived.event.clear()
            return taken

        # Each partition that is taken or given back costs an answer of the server.
        return self._connection.ask(wait, timeout_s + 4 * ANSWER_S)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Let the server forget frames; what it does not hear of comes again."""

        async def acknowledge(client: Client, _jetstream: JetStreamContext) -> None:
            for delivery in deliveries:
                receipt = delivery.receipt
                assert isinstance(receipt, _Receipt)
                share = receipt.share
                if self._shares.get(share.partition) is share:
                    share.in_hand.pop(receipt, None)
                    await receipt.message.ack()
            await client.flush(timeout=int(ANSWER_S))

        self._connection.ask(acknowledge)

    def take_revoked(self) -> frozenset[int]:
        """Return the partitions that were lost since the last call."""
        taken, self._revoked = frozenset(self._revoked), set()
        return taken

    def is_empty(self) -> bool:
        """Return whether no frame waits at the server."""

        async def count(_client: Client, jetstream: JetStreamContext) -> int:
            return int((await jetstream.stream_info(self._stream)).state.messages)

        return self._connection.ask(count) == 0

    def close(self) -> None:
        """Give the partitions back."""

        async def leave(client: Client, jetstream: JetStreamContext) -> None:
            for partition in tuple(self._shares):
                await self._give_back(partition, jetstream)
            await client.publish(self._meeting, f"-{self._name}".encode())
            await client.flush(timeout=int(ANSWER_S))

        try:
            with asked_of(self._connection.url, FAILURES):
                self._connection.ask(leave, 2 * ANSWER_S)
        except StoreUnavailable:  # then the server notices it by itself
            pass
        finally:
            self._connection.close()

    async def _prepare(self, client: Client, jetstream: JetStreamContext) -> None:
        """Begin anew on a new connection: what was delivered on the former one comes again."""
        self._partitions = (await ensure_stream(self._address, client, jetstream)).partitions
        for share in self._shares.values():
            self._revoked.add(share.partition)
            with suppress(NotFoundError):
                await jetstream.delete_consumer(self._stream, share.consumer)
        self._shares.clear()
        self._arrived = _Arrived()
        self._presence_at = 0.0
        await client.subscribe(self._meeting, cb=self._hear)

    async def _hear(self, message: Msg) -> None:
        """Note that another collector is there, or leaves."""
        name = message.data.decode(errors="replace")
        if name.startswith("-"):
            self._others.pop(name[1:], None)
        elif name != self._name:
            self._others[name] = time.monotonic()

    async def _take(self, share: _Share, message: Msg) -> None:
        """Take an answer to a request: a frame, or that the request is over."""
        if self._shares.get(share.partition) is not share:
            return
        status = (message.header or {}).get("Status", "") if not message.data else ""
        if status == "503" or "Consumer" in (message.header or {}).get("Description", ""):
            await self._lose(share)
        elif status in _OVER:
            share.left = 0
        elif not status:
            share.left -= 1
            receipt = _Receipt(share, message)
            share.in_hand[receipt] = len(message.data)
            self._arrived.frames.append(Delivery(share.partition, message.data, receipt))
            self._arrived.event.set()

    async def _lose(self, share: _Share) -> None:
        self._shares.pop(share.partition, None)
        if share.answers is not None:
            await share.answers.unsubscribe()
        self._revoked.add(share.partition)
        self._arrived.frames = [frame for frame in self._arrived.frames if frame.partition != share.partition]

    async def _request(self, client: Client, jetstream: JetStreamContext) -> None:
        """Ask for more of each partition whose last request is over; of one of which much is in hand, for what does
        not exist, since the server gives it away if nobody asks."""
        now = time.monotonic()
        for share in tuple(self._shares.values()):
            if share.left > 0 and now > share.asked_until and not await self._is_there(share, jetstream):
                await self._lose(share)
            elif share.left <= 0 or now > share.asked_until:
                has_room = sum(share.in_hand.values()) < _BATCH_BYTES
                share.left, share.asked_until = (_BATCH if has_room else 1), now + _EXPIRES_S + 1.0
                more = {
                    "batch": share.left,
                    "max_bytes": _BATCH_BYTES if has_room else 1,
                    "expires": int(_EXPIRES_S * 1e9),
                }
                question = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{share.consumer}"
                await client.publish(question, json.dumps(more).encode(), reply=f"{self._inbox}.{share.consumer}")

    async def _is_there(self, share: _Share, jetstream: JetStreamContext) -> bool:
        """Return whether the server has the consumer still: to ask one that is gone brings no answer at all."""
        try:
            await jetstream.consumer_info(self._stream, share.consumer)
        except NotFoundError:
            return False
        return True

    async def _see(self, client: Client, jetstream: JetStreamContext) -> None:
        """Tell the others that we are here, and take and give back partitions so that each has its share."""
        now = time.monotonic()
        if now - self._presence_at < _PRESENCE_S:
            return
        self._presence_at = now
        await client.publish(self._meeting, self._name.encode())
        self._others = {name: at for name, at in self._others.items() if now - at < _GONE_S}
        names = sorted((self._name, *self._others))
        mine = set(range(names.index(self._name), self._partitions, len(names)))
        for partition in set(self._shares) - mine:
            if not self._shares[partition].in_hand:
                await self._give_back(partition, jetstream)
        for partition in sorted(mine - set(self._shares)):
            await self._acquire(partition, client, jetstream)

    async def _acquire(self, partition: int, client: Client, jetstream: JetStreamContext) -> None:
        """Make the consumer of a partition, unless another collector has it."""
        self._count += 1
        consumer = f"{self._name}-{partition}-{self._count}"
        config = ConsumerConfig(
            name=consumer,
            durable_name=consumer,
            filter_subject=subject(self._address, partition),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=_ACKNOWLEDGE_S,
            max_ack_pending=_BATCH,
            inactive_threshold=_INACTIVE_S,
        )
        try:
            await jetstream.add_consumer(self._stream, config)
        except APIError as error:
            if not _has_another(error):
                raise
            return
        share = self._shares[partition] = _Share(partition, consumer)
        share.answers = await client.subscribe(f"{self._inbox}.{consumer}", cb=partial(self._take, share))

    async def _give_back(self, partition: int, jetstream: JetStreamContext) -> None:
        share = self._shares[partition]
        await self._lose(share)
        with suppress(NotFoundError):
            await jetstream.delete_consumer(self._stream, share.consumer)


def _has_another(error: APIError) -> bool:
    """Return whether the server refuses a second consumer of a partition."""
    return "unique" in (error.description or "")
