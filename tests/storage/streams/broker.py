"""A broker in memory with the promises of `transport.py`, which can be made to refuse, or to answer too late."""

from collections.abc import Sequence

from mindscope.storage import StoreUnavailable
from mindscope.storage.streams.transport import Delivery


class MemoryBroker:
    """A transport with one partition.

    Attributes:
        refuses: How many of the next publications are refused.
        hides: How many of the next publications are taken though the publisher hears that they are refused.
        log: What was published and not acknowledged, by the key of the message and the number of the frame.
    """

    url = "memory-broker"

    def __init__(self, frame_bytes: int = 1 << 20) -> None:
        self.frame_bytes = frame_bytes
        self.refuses = self.hides = 0
        self.log: dict[str, bytes] = {}
        self.calls = 0

    def check(self) -> None: ...

    def publisher(self, recording: str) -> "MemoryBroker":
        return self

    def publish(self, key: str, frames: Sequence[bytes]) -> None:
        self.calls += 1
        if self.refuses:
            self.refuses -= 1
            raise StoreUnavailable("refused")
        for part, frame in enumerate(frames):
            assert len(frame) <= self.frame_bytes
            self.log.setdefault(f"{key}.{part}", frame)
        if self.hides:
            self.hides -= 1
            raise StoreUnavailable("no answer")

    def idle(self) -> None: ...

    def close(self) -> None: ...

    def subscription(self) -> "MemorySubscription":
        return MemorySubscription(self)


class MemorySubscription:
    """Delivers everything that was not acknowledged, each frame once, or again after `deliver_again`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._delivered: set[str] = set()
        self.revoked: frozenset[int] = frozenset()
        self.acknowledges = True

    def receive(self, timeout_s: float) -> list[Delivery]:
        fresh = [key for key in self._broker.log if key not in self._delivered]
        self._delivered.update(fresh)
        return [Delivery(0, self._broker.log[key], key) for key in fresh]

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        if not self.acknowledges:
            raise StoreUnavailable("the acknowledgement is lost")
        for delivery in deliveries:
            self._broker.log.pop(str(delivery.receipt), None)

    def deliver_again(self) -> None:
        self._delivered.clear()

    def take_revoked(self) -> frozenset[int]:
        taken, self.revoked = self.revoked, frozenset()
        return taken

    def is_empty(self) -> bool:
        return not self._broker.log

    def close(self) -> None: ...
