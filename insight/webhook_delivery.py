"""One HTTP request for each document: which addresses it may go to, how often it is tried, and what is said of it.

    resolve the name -> refuse private addresses -> connect to that very address -> POST, at most four times

The address that was checked is the one that is connected to, so a name that resolves to something else the second time
(DNS rebinding) gains nothing. Redirects are not followed, and proxies of the environment are not used. An error names
the host and never the rest of the URL, which is often a secret.
"""

import socket
import ssl
from collections.abc import Callable
from http.client import HTTPException
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry, make_headers

from .errors import InvalidRule

__all__ = ["DeliveryFailed", "WebhookAddress"]

#: Answers after which another try is worth it; RFC 9110 and RFC 6585 say so of these.
_TRY_AGAIN: Final = (429, 500, 502, 503, 504)
#: Three further tries, at once, then after about 1 s and 2 s: our choice. Up to half a second of jitter parts the ranks
#: of a run, which find the same at the same moment.
_RETRIES: Final = Retry(
    total=3, backoff_factor=0.5, backoff_max=8.0, backoff_jitter=0.5, allowed_methods=None, redirect=False
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


class DeliveryFailed(Exception):
    """A document was not delivered; the message names the host and why, never path, query or password."""


class _Refused(Exception):
    """The server, or the address, is one that no further try would change."""


class WebhookAddress:
    """Where documents are posted to.

    Args:
        url: `http` or `https`; a user and password in it are sent as basic authentication.
        timeout_s: For the connection, and for each part of the answer.
        allow_private: Whether loopback, private and link-local addresses may be posted to.

    Raises:
        InvalidRule: The URL is none of the web, or names a private address that is not allowed.
    """

    def __init__(self, url: str, *, timeout_s: float, allow_private: bool) -> None:
        parts = _split(url)
        self.host = parts.hostname or ""
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self.name = f"{self.host}:{self._port}"
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._timeout_s, self._allow_private = timeout_s, allow_private
        self._headers = {"Host": _host_header(parts), "Content-Type": "application/json", "User-Agent": "mindscope"}
        if parts.username is not None:
            self._headers |= make_headers(basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}")
        literal = _literal(self.host)
        if literal is not None and not allow_private and _is_private(literal):
            raise InvalidRule(f"webhook {self.name} {_PRIVATE}")

    def post(self, body: bytes, *, pause: Callable[[float], bool], tries_again: bool = True) -> None:
        """Post a document.

        Args:
            pause: Waits so many seconds before another try; returns True where there is no time for one.
            tries_again: Whether a failed try is followed by others.

        Raises:
            DeliveryFailed: No try succeeded, or the address is refused.
        """
        retry = _RETRIES if tries_again else _RETRIES.new(total=0)
        while True:
            try:
                self._post_once(body)
            except _Refused as error:
                raise DeliveryFailed(str(error)) from None
            except (OSError, HTTPException, HTTPError, ValueError, _Failed) as error:
                try:
                    retry = retry.increment("POST", error=error)
                except MaxRetryError:
                    raise DeliveryFailed(_words(error)) from None
                if pause(retry.get_backoff_time()):
                    raise DeliveryFailed(_words(error)) from None
            else:
                return

    def _post_once(self, body: bytes) -> None:
        connection = self._connected()
        try:
            connection.request("POST", self._target, body, self._headers, preload_content=False)
            status = connection.getresponse().status
        finally:
            connection.close()
        if 200 <= status < 300:
            return
        if status in _TRY_AGAIN:
            raise _Failed(f"it answers {status}")
        if 300 <= status < 400:
            raise _Refused(f"it answers with a redirect ({status}), which is not followed; give the address behind it")
        raise _Refused(f"it answers {status}; check the address and its token")

    def _connected(self) -> HTTPConnection:
        """Return a connection to the first allowed address of the host that takes one."""
        *others, last = self._addresses()
        for address in others:
            connection = self._connection(address)
            try:
                connection.connect()
            except (OSError, HTTPError):
                connection.close()
            else:
                return connection
        return self._connection(last)

    def _connection(self, address: str) -> HTTPConnection:
        if not self._is_secure:
            return HTTPConnection(address, self._port, timeout=self._timeout_s)
        return HTTPSConnection(
            address,
            self._port,
            timeout=self._timeout_s,
            server_hostname=self.host,
            assert_hostname=self.host,
            ssl_context=ssl.create_default_context(),
        )

    def _addresses(self) -> list[str]:
        """Return the addresses of the host that may be connected to, one at least.

        Raises:
            _Refused: All its addresses are private, and these are not allowed.
        """
        found = socket.getaddrinfo(self.host, self._port, type=socket.SOCK_STREAM)
        addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
        allowed = [text for text in addresses if self._allow_private or not _is_private(_literal(text))]
        if not allowed:
            raise _Refused(_PRIVATE)
        return allowed


class _Failed(Exception):
    """The server answered that it cannot take the document now."""


_PRIVATE: Final = (
    "is a private, loopback or link-local address, to which nothing is posted; set allow_private: true if it is meant"
)


def _split(url: str) -> SplitResult:
    """Return the parts of a web address; the error repeats nothing of it but its scheme."""
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an odd port, or brackets that do not match
        parts, is_right = SplitResult("", "", "", "", ""), False
    if not is_right or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise InvalidRule(
            f"webhook must be an address as https://host/path or http://host:port/path, got one with the scheme "
            f"{parts.scheme[:20]!r}; check host and port"
        )
    return parts


def _host_header(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that the text is, None where it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _is_private(address: IPv4Address | IPv6Address | None) -> bool:
    """Return whether an address is none of the public internet, also where it is wrapped in one of IPv6."""
    if address is None:
        return True
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(address.packed[-4:])
        if inner is not None:
            return _is_private(inner)
        if address.teredo is not None:
            return True
    return not address.is_global or address.is_multicast


def _words(error: BaseException) -> str:
    """Describe an error of the network, without what the libraries write of the URL."""
    if isinstance(error, _Failed):
        return str(error)
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"{type(error).__name__}: {reason}" if reason != type(error).__name__ else reason
