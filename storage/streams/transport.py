"""What senders and collectors ask of a message broker, and the URL that names one.

Promises
    durable      what `Publisher.publish` has returned from is on the broker's disk, and stays until it is acknowledged
    order        messages of one recording are delivered in the order in which they were published
    once or more a message is delivered until it is acknowledged; the collector recognises what is stored already
    one reader   a partition is delivered to one subscription at a time; when that dies, another one gets it
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import xxhash

from ..errors import InvalidName, StoreUnavailable, nearest, without_passwords

#: The schemes of brokers; `tls` is NATS's own for a connection that is encrypted from the start.
SCHEMES: Final = ("nats", "tls", "kafka")
_PORTS: Final = {"nats": 4222, "tls": 4222, "kafka": 9092}
_PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: How many collectors can share the work of a new project, and a bound of it (our choices).
PARTITIONS: Final = 32
_MOST_PARTITIONS: Final = 1024
#: Bytes of the largest frame: half of what each broker takes unless it is told otherwise.
FRAME_BYTES: Final = 512 << 10


class Publisher(Protocol):
    """Publishes the messages of one recording; used by one thread at a time.

    Attributes:
        frame_bytes: The largest frame.
    """

    frame_bytes: int

    def publish(self, key: str, frames: Sequence[bytes]) -> None:
        """Publish a message; return when the broker has it on disk.

        Args:
            key: Tells the message from every other, so that the broker recognises one that is sent again.
            frames: Its frames.

        Raises:
            StoreUnavailable: The broker does not answer or has no room; it may have the message all the same.
        """

    def idle(self) -> None:
        """Keep the connection alive; called about once a second while nothing is published."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A frame on its way to a collector.

    Args:
        receipt: By which the transport knows it when it is acknowledged.
    """

    partition: int
    data: bytes
    receipt: object


class Subscription(Protocol):
    """Delivers messages to one of several collectors, and keeps those that it has not acknowledged."""

    def receive(self, timeout_s: float) -> list[Delivery]:
        """Return what has arrived, waiting at most `timeout_s` seconds for it; in order within a partition.

        Raises:
            StoreUnavailable: The broker does not answer; to be called again.
        """

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Let the broker forget frames that are stored; those of a partition that was revoked are left alone."""

    def take_revoked(self) -> frozenset[int]:
        """Return the partitions that another collector may have since the last call; they come again, if at all,
        from the first frame that is not acknowledged."""

    def is_empty(self) -> bool:
        """Return whether no frame of the project waits at the broker, also for other collectors.

        Raises:
            StoreUnavailable: The broker does not answer; to be called again.
        """

    def close(self) -> None:
        """Give the partitions back and close the connection."""


class Transport(Protocol):
    """A project at a broker.

    Attributes:
        url: Without passwords.
    """

    url: str

    def check(self) -> None:
        """Make the project if it is not there yet.

        Raises:
            StoreUnavailable: The broker does not answer, or the project is not as it has to be.
        """

    def publisher(self, recording: str) -> Publisher:
        """Return the publisher of a recording, connected."""

    def subscription(self) -> Subscription:
        """Return a subscription, which shares the project with those of other collectors."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a broker's URL.

    Args:
        hosts: (host, port) of each server.
        user: A user's name, or a token where there is no password.
        options: The query.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    project: str
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        user = f"{self.user}:***@" if self.password else "***@" if self.user else ""
        return f"{self.scheme}://{user}{hosts}/{self.project}"

    def number(self, name: str, default: int, most: int) -> int:
        """Return an option that is a number from 1 to `most`.

        Raises:
            InvalidName: It is none.
        """
        text = self.options.get(name, str(default))
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise InvalidName(f"{self}: {name} must be a number from 1 to {most}, got {text!r}")
        return int(text)

    def partitions(self) -> int:
        """Return how many partitions a new project gets."""
        return self.number("partitions", PARTITIONS, _MOST_PARTITIONS)


def is_stream(url: str) -> bool:
    """Return whether the URL is that of a message broker."""
    return url.partition("://")[0] in SCHEMES and "://" in url


def parse_address(url: str, known: Sequence[str], *, is_open: bool = False) -> Address:
    """Return the parts of `nats://user:password@host:port,host:port/project?option=value`.

    Args:
        known: Options that there are.
        is_open: Whether options with a dot in their name are taken, too.

    Raises:
        InvalidName: It is no such URL.
    """
    shown = without_passwords(url)
    parts = urlsplit(url)
    user, at, places = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    project = parts.path.strip("/")
    if not _PROJECT.fullmatch(project):
        example = f"{parts.scheme}://host:{_PORTS[parts.scheme]}/project"
        raise InvalidName(
            f"store {shown!r} must name a project of letters, digits, - and _ after the host, as in {example}; "
            f"got {project!r}"
        )
    hosts = tuple(_host(place, _PORTS[parts.scheme], shown) for place in places.split(","))
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for option in options:
        if option not in known and not (is_open and "." in option):
            raise InvalidName(f"store {shown!r} has an unknown option {option!r}{nearest(option, known)}")
    return Address(parts.scheme, hosts, project, unquote(name) if at else "", unquote(password), options)


def _host(place: str, port: int, shown: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/\s]+)(:(?P<port>\d{1,5}))?", place)
    if match is None or not 0 < int(match["port"] or port) < 65536:
        raise InvalidName(f"store {shown!r} has no host in {place!r}; expected host:port, several joined by commas")
    return match["host"], int(match["port"] or port)


def partition_of(recording: str, partitions: int) -> int:
    """Return the partition of a recording, the same in every process."""
    return int(xxhash.xxh3_64_intdigest(recording.encode()) % partitions)


@contextmanager
def asked_of(url: str, kinds: tuple[type[BaseException], ...]) -> Iterator[None]:
    """Translate errors of a client to `StoreUnavailable` that names the broker."""
    try:
        yield
    except kinds as error:
        words = without_passwords(str(error) or type(error).__name__)
        if isinstance(error, OSError | TimeoutError) or "broker transport failure" in words.lower():
            raise StoreUnavailable(
                f"no broker answers at {url} ({_plain(error, words)}): start it (docs/streams.md), or correct "
                "host and port in the URL"
            ) from error
        raise StoreUnavailable(f"{url} does not take messages: {words}") from error


def _plain(error: BaseException, words: str) -> str:
    """Return in a few words why nobody answers."""
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(error, TimeoutError) and words == type(error).__name__:
        return "no answer in time"
    quoted = re.search(r'str="([^"]+)"', words)  # as Kafka's client writes it
    return quoted[1] if quoted else words


class Closing:
    """A part that is closed at the end of a `with` block."""

    def close(self) -> None:
        """Close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
