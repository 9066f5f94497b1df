"""A connection to NATS that is used without a thread or a running event loop of one's own; the stream of a project.

The event loop runs only inside of calls, in the thread that calls. It polls instead of asking the kernel's epoll, which
a forked child would share.
"""

import asyncio
import atexit
import logging
import os
import random
import selectors
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from ..errors import StoreUnavailable
from .transport import FRAME_BYTES, Address, Closing, asked_of

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
#: Seconds to connect to one server, and for which a server may leave a question unanswered (our choice).
_CONNECT_S: Final = 2.0
ANSWER_S: Final = 3.0
#: Seconds in which the server recognises a message that is sent again; the collector recognises it afterwards, too.
_DUPLICATES_S: Final = 120.0
#: Room of a server's message for headers, and the least that has to be left for a frame.
_HEADERS_BYTES, _LEAST_BYTES = 4 << 10, 16 << 10
#: Error of the server: the stream exists with another configuration.
_STREAM_EXISTS: Final = 10058
#: What may be wrong with a connection: errors of the client, of the network, of certificates.
FAILURES: Final = (NatsError, OSError, TimeoutError, asyncio.TimeoutError, ssl.SSLError, EOFError)
#: Options of a URL.
OPTIONS: Final = ("partitions", "replicas", "max_bytes", "creds")
#: Variables of the environment, as NATS's own command names them.
_VARIABLES: Final = {name: f"NATS_{name.upper()}" for name in ("user", "password", "token", "creds", "nkey")}


class NatsConnection(Closing):
    """A connection that is made when it is needed, and made again after a failure.

    Args:
        prepare: Called with every new connection.
    """

    def __init__(
        self, address: Address, prepare: Callable[[Client, JetStreamContext], Awaitable[object]] | None = None
    ) -> None:
        self.url = str(address)
        self._address, self._prepare = address, prepare
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._said: Exception | None = None  # what the client says of a connection that it then gives up in silence
        self._pid = os.getpid()
        _open.add(self)

    def ask(
        self, question: Callable[[Client, JetStreamContext], Awaitable[_Answer]], timeout_s: float = ANSWER_S
    ) -> _Answer:
        """Return what the coroutine returns, given the client.

        Raises:
            StoreUnavailable: The server does not answer in time, or refuses; the next call connects anew.
        """
        if os.getpid() != self._pid:
            raise StoreUnavailable(f"{self.url}: this connection belongs to process {self._pid}")
        if self._loop is None:
            self._loop = asyncio.SelectorEventLoop(selectors.PollSelector())
        with asked_of(self.url, FAILURES):
            try:
                return self._loop.run_until_complete(self._asked(question, timeout_s))
            except (*FAILURES, StoreUnavailable) as error:
                if not isinstance(error, APIError | StoreUnavailable):
                    self._loop.run_until_complete(self._disconnect())
                raise

    def idle(self) -> None:
        """Let an open connection do what is due, such as to answer the server's pings."""
        if self._loop is not None and self._client is not None and os.getpid() == self._pid:
            self._loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        """Close the connection; a forked child leaves its parent's alone."""
        if self._loop is not None and os.getpid() == self._pid:
            self._loop.run_until_complete(self._disconnect())
            self._loop.close()
            self._loop = None

    async def _asked(
        self, question: Callable[[Client, JetStreamContext], Awaitable[_Answer]], timeout_s: float
    ) -> _Answer:
        client = await self._connected()
        asking = asyncio.ensure_future(question(client, client.jetstream(timeout=ANSWER_S)))
        try:
            done, _ = await asyncio.wait((asking, self._lost), timeout=timeout_s, return_when="FIRST_COMPLETED")
            if asking in done:
                return asking.result()
            raise TimeoutError("the connection is lost" if done else f"no answer within {timeout_s:.0f} s")
        finally:
            asking.cancel()

    async def _connected(self) -> Client:
        if self._client is not None and self._client.is_connected:
            return self._client
        await self._disconnect()
        failure: BaseException = TimeoutError()
        for host, port in random.sample(self._address.hosts, len(self._address.hosts)):
            self._said = None
            try:
                self._client = await asyncio.wait_for(self._connect(host, port), 2 * _CONNECT_S)
                if self._prepare is not None:
                    await self._prepare(self._client, self._client.jetstream(timeout=ANSWER_S))
            except FAILURES as error:
                failure = self._why(error)
                await self._disconnect()
            else:
                return self._client
        raise failure

    def _why(self, error: BaseException) -> BaseException:
        """Return what the client has said where it gave no more than that time is over."""
        return self._said if isinstance(error, TimeoutError) and self._said is not None else error

    async def _connect(self, host: str, port: int) -> Client:
        lost = self._lost = asyncio.get_running_loop().create_future()

        async def closed() -> None:
            if not lost.done():
                lost.set_result(None)

        async def failed(error: Exception) -> None:
            _log.debug("%s: %s", self.url, error)
            self._said = error

        scheme = "tls" if self._address.scheme == "tls" else "nats"
        return await nats.connect(
            f"{scheme}://{host}:{port}",
            name="mindscope",
            allow_reconnect=False,
            connect_timeout=int(_CONNECT_S),
            error_cb=failed,
            closed_cb=closed,
            **_credentials(self._address),
        )

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            try:
                await asyncio.wait_for(client.close(), 1.0)
            except FAILURES as error:
                _log.debug("%s: %s", self.url, error)
            left = asyncio.all_tasks() - {asyncio.current_task()}  # of the client
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)


#: Connections that are closed at the latest when the process ends.
_open: WeakSet[NatsConnection] = WeakSet()


@atexit.register
def _close_all() -> None:
    for connection in tuple(_open):
        with suppress(Exception):  # such as that a thread of a daemon is using it
            connection.close()


def _credentials(address: Address) -> dict[str, Any]:  # Any: arguments of the client
    """Return who we are, from the URL or the environment, and how the connection is encrypted."""
    found = {name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)}
    given: dict[str, Any] = {}
    if address.password:
        given = {"user": address.user, "password": address.password}
    elif address.user:
        given = {"token": address.user}
    elif creds := address.options.get("creds") or found.get("creds"):
        given = {"user_credentials": os.path.expanduser(creds)}
    elif "nkey" in found:
        given = {"nkeys_seed": found["nkey"]}
    else:
        given = {name: found[name] for name in ("user", "password", "token") if name in found}
    authority, certificate, key = (os.environ.get(f"NATS_{name}") for name in ("CA", "CERT", "KEY"))
    if address.scheme == "tls" or authority or certificate:
        context = given["tls"] = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    return given


def stream_name(address: Address) -> str:
    """Return the name of a project's stream."""
    return f"mindscope-{address.project}"


def subject(address: Address, partition: int) -> str:
    """Return the subject of a partition."""
    return f"mindscope.{address.project}.{partition}"


class StreamForm(NamedTuple):
    """How many partitions the stream of a project has, and the bytes of the largest frame that it takes."""

    partitions: int
    frame_bytes: int


async def ensure_stream(address: Address, client: Client, jetstream: JetStreamContext) -> StreamForm:
    """Make the stream of a project if it is not there yet; return its form.

    Raises:
        StoreUnavailable: It cannot be made, or has another form.
    """
    name = stream_name(address)
    try:
        info = await _found_or_made(address, jetstream)
    except ServiceUnavailableError as error:
        raise StoreUnavailable(f"{address}: the server has no JetStream: start it with `nats-server -js`") from error
    config = info.config
    if config.retention != RetentionPolicy.WORK_QUEUE or config.max_consumers not in (None, -1):
        raise StoreUnavailable(
            f"{address}: stream {name} must have the retention `workqueue` and no limit of consumers, got "
            f"{config.retention}; delete it, and mindscope makes it as it has to be"
        )
    if 0 < (config.max_msg_size or 0) < _LEAST_BYTES + _HEADERS_BYTES:
        raise StoreUnavailable(f"{address}: stream {name} must take messages of {_LEAST_BYTES + _HEADERS_BYTES} bytes")
    return StreamForm(len(config.subjects or ()), _frame_bytes(address, client, config))


def _frame_bytes(address: Address, client: Client, config: StreamConfig) -> int:
    """Return the size of the largest frame that server and stream take; raise `StoreUnavailable` if it is too small."""
    most = client.max_payload - _HEADERS_BYTES
    if (config.max_msg_size or 0) > 0:
        most = min(most, (config.max_msg_size or 0) - _HEADERS_BYTES)
    if most < _LEAST_BYTES:
        raise StoreUnavailable(
            f"{address}: the server must take messages of {(_LEAST_BYTES + _HEADERS_BYTES) >> 10} KiB, its max_payload "
            f"is {client.max_payload >> 10} KiB; raise it"
        )
    return min(FRAME_BYTES, most)


def what_discards(config: StreamConfig) -> str:
    """Return why the server of this stream may drop messages that nobody has collected; empty if it does not."""
    if config.max_age:
        return f"drops messages after {config.max_age:.0f} s (max_age)"
    limits = (config.max_msgs, config.max_bytes, config.max_msgs_per_subject)
    if config.discard == DiscardPolicy.OLD and any((limit or -1) > 0 for limit in limits):
        return "drops the oldest messages when it is full (discard: old)"
    return ""


async def _found_or_made(address: Address, jetstream: JetStreamContext) -> StreamInfo:
    name = stream_name(address)
    try:
        return _told(address, await jetstream.stream_info(name))
    except NotFoundError:
        pass
    config = StreamConfig(
        name=name,
        description="records of trainings on their way to `mindscope collect`",
        subjects=[subject(address, partition) for partition in range(address.partitions())],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=address.number("replicas", 1, 5),
        max_bytes=address.number("max_bytes", 2**62, 2**62) if "max_bytes" in address.options else None,
        duplicate_window=_DUPLICATES_S,
    )
    try:
        return await jetstream.add_stream(config)
    except APIError as error:
        if error.err_code != _STREAM_EXISTS:  # another rank was faster, with other options
            raise
        return await jetstream.stream_info(name)


#: Streams that were warned of.
_warned: set[str] = set()


def _told(address: Address, info: StreamInfo) -> StreamInfo:
    """Warn once of a stream that drops messages."""
    why = what_discards(info.config)
    if why and str(address) not in _warned:
        _warned.add(str(address))
        _log.warning(
            "%s: stream %s %s, and with them records that nobody has collected; set discard: new and no max_age, "
            "then what finds no room waits at the trainings",
            *(address, stream_name(address), why),
        )
    return info
