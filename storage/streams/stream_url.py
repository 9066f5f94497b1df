"""Opens the transport of a broker's URL; the client of each broker is optional."""

from ..errors import InvalidName, StoreUnavailable, nearest, without_passwords
from .transport import SCHEMES, Transport, is_stream

__all__ = ["is_stream", "open_transport"]


def open_transport(url: str) -> Transport:
    """Return the transport of `nats://...`, `tls://...` or `kafka://...`; nothing is asked of the broker yet.

    Raises:
        InvalidName: It is no such URL.
        StoreUnavailable: The broker's client is not installed.
    """
    if not is_stream(url):
        scheme = url.partition("://")[0]
        raise InvalidName(
            f"{without_passwords(url)!r} is no stream{nearest(scheme, SCHEMES)}; expected nats://host:4222/project or "
            f"kafka://host:9092/project"
        )
    kind = "kafka" if url.startswith("kafka:") else "nats"
    try:
        if kind == "kafka":
            from .kafka_transport import KafkaTransport  # noqa: PLC0415  optional

            return KafkaTransport(url)
        from .nats_transport import NatsTransport  # noqa: PLC0415  optional

        return NatsTransport(url)
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"{url.partition('://')[0]} needs a client: pip install 'mindscope[{kind}]' ({error})"
        ) from error
