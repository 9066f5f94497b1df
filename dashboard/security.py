"""Access control: Host and Origin of every request, the token where one is required, the headers of every response."""

import base64
import hashlib
import hmac
import ipaddress
import logging
import socket
from typing import Final
from urllib.parse import urlencode, urlsplit

import flask

from .settings import Settings, is_loopback

_log = logging.getLogger(__name__)

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_MONTH_S: Final = 30 * 86_400


class NotAllowed(PermissionError):
    """A change that this visitor may not make."""


def protect(server: flask.Flask, settings: Settings) -> None:
    """Guard every request of the server: pages, callbacks and assets alike."""
    cookie = f"mindscope_{settings.port}"
    secret = _cookie_value(settings.token) if settings.token else ""

    @server.before_request
    def check() -> flask.typing.ResponseReturnValue | None:
        if not _is_own_host(flask.request.host, settings.host):
            return _refuse(403, f"this dashboard does not answer to the host name {flask.request.host!r}")
        origin = flask.request.headers.get("Origin")
        if flask.request.method not in ("GET", "HEAD") and origin and urlsplit(origin).netloc != flask.request.host:
            return _refuse(403, f"a page of {origin} may not use this dashboard")
        knows = settings.token is not None and _has_token(settings.token, secret, cookie)
        flask.g.may_change = knows and not settings.is_read_only
        flask.g.is_read_only = settings.is_read_only
        if settings.token is None:
            return None
        if "token" in flask.request.args:
            return _without_token() if knows else _welcome_or_refuse(settings.token, secret, cookie)
        return None if knows or settings.is_open else _welcome_or_refuse(settings.token, secret, cookie)


def may_change() -> bool:
    """Return whether this visitor may change what is stored: the token is known, and changes are allowed."""
    return bool(flask.has_request_context() and flask.g.get("may_change"))


def demand_change() -> None:
    """Raise unless this visitor may change what is stored.

    Raises:
        NotAllowed: The visitor brought no token, or the dashboard is read-only.
    """
    if may_change():
        return
    if flask.has_request_context() and flask.g.get("is_read_only"):
        raise NotAllowed("this dashboard was started with --read-only; nothing can be changed here")
    raise NotAllowed("changes need the token; open the address that the dashboard printed when it started")


def _cookie_value(token: str) -> str:
    """Return the value that the cookie holds instead of the token itself."""
    return hashlib.sha256(b"mindscope dashboard cookie\0" + token.encode()).hexdigest()


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _has_token(token: str, secret: str, cookie: str) -> bool:
    bearer = flask.request.headers.get("Authorization", "").removeprefix("Bearer ")
    return _equal(flask.request.cookies.get(cookie, ""), secret) or _equal(bearer, token)


def _welcome_or_refuse(token: str, secret: str, cookie: str) -> flask.typing.ResponseReturnValue:
    if not _equal(flask.request.args.get("token", ""), token):
        return _refuse(401, "this dashboard asks for its token; open the address that it printed when it started")
    answer = _without_token()
    answer.set_cookie(
        cookie, secret, max_age=_MONTH_S, httponly=True, samesite="Strict", secure=flask.request.is_secure
    )
    return answer


def _without_token() -> flask.Response:
    """Redirect to the same address without the token, so that it stays out of history and screenshots."""
    query = [(key, value) for key, value in flask.request.args.items(multi=True) if key != "token"]
    path = "/" + flask.request.path.lstrip("/\\")
    return flask.redirect(path + ("?" + urlencode(query) if query else ""), code=303)  # type: ignore[return-value]  # it is one


def _refuse(status: int, why: str) -> flask.Response:
    _log.info("refused %s %s: %s", flask.request.method, flask.request.path, why)
    return flask.Response(why + "\n", status=status, mimetype="text/plain")


def _is_own_host(requested: str, host: str) -> bool:
    """Accept IP addresses and this machine's own names: a DNS rebinding attack needs a name of its own."""
    name = urlsplit(f"//{requested}").hostname or ""
    if is_loopback(name):
        return True
    if is_loopback(host):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        machine = socket.gethostname().lower()
        return name.lower() in {host.lower(), machine, machine.partition(".")[0], socket.getfqdn().lower()}
    return True


def hash_of(script: str) -> str:
    """Return the hash by which a policy allows an inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def add_headers(server: flask.Flask, script_hashes: tuple[str, ...]) -> None:
    """Add to every answer a policy that lets the browser load from here and from nowhere else."""
    policy = "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {' '.join(script_hashes)}".rstrip(),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )

    @server.after_request
    def stamp(answer: flask.Response) -> flask.Response:
        answer.headers["Content-Security-Policy"] = policy
        for name, value in _HEADERS.items():
            answer.headers[name] = value
        return answer
