"""Where a webhook may post to, how often it tries, and that nothing secret is said: against a real server."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from mindscope.insight import InvalidRule
from mindscope.insight.webhook import Webhook
from mindscope.insight.webhook_delivery import DeliveryFailed, WebhookAddress, _is_private, _literal
from mindscope.storage import Finding, Run, StepRecord, Structure

SECRETS = ("geheim", "t0ken", "hidden-path")


class Server(HTTPServer):
    """Answers with the statuses it is given, the last one for good, and remembers what it was sent."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.requests: list[tuple[str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://user:geheim@{host}:{self.server_port}/hidden-path?token=t0ken"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers)))
        statuses = self.server.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere?token=t0ken")
        self.send_header("Retry-After", "86400")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator:
    running = []

    def start(*statuses: int) -> Server:
        server = Server(*statuses)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join(30)
        server.server_close()


def _address(url: str, *, allow_private: bool = True) -> WebhookAddress:
    return WebhookAddress(url, timeout_s=5.0, allow_private=allow_private)


def test_errors_of_the_server_are_tried_again_with_growing_pauses(serve) -> None:
    server = serve(503, 500, 429, 204)
    pauses: list[float] = []
    _address(server.url()).post(b"{}", pause=lambda seconds: bool(pauses.append(seconds)))
    assert len(server.requests) == 4
    assert pauses[0] == 0.0
    assert 1.0 <= pauses[1] <= 1.5
    assert 2.0 <= pauses[2] <= 2.5  # and not the day that `Retry-After` asks for


def test_four_tries_are_the_most_and_the_failure_names_host_and_status_only(serve) -> None:
    server = serve(503)
    with pytest.raises(DeliveryFailed, match="it answers 503") as caught:
        _address(server.url()).post(b"{}", pause=lambda _seconds: False)
    assert len(server.requests) == 4
    assert caught.value.__cause__ is None
    assert not any(secret in str(caught.value) for secret in SECRETS)


@pytest.mark.parametrize(
    ("status", "words"), [(302, "a redirect .302., which is not followed"), (401, "it answers 401; check the address")]
)
def test_a_redirect_and_a_refusal_end_the_delivery_at_once(serve, status: int, words: str) -> None:
    server = serve(status)
    with pytest.raises(DeliveryFailed, match=words):
        _address(server.url()).post(b"{}", pause=lambda _seconds: False)
    assert [path for path, _ in server.requests] == ["/hidden-path?token=t0ken"]


def test_user_and_password_are_sent_as_basic_authentication_and_the_name_as_host(serve) -> None:
    server = serve(204)
    _address(server.url("localhost")).post(b"{}", pause=lambda _seconds: False)
    ((_, headers),) = server.requests
    assert headers["authorization"] == "Basic dXNlcjpnZWhlaW0="
    assert headers["Host"] == f"localhost:{server.server_port}"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.7", "192.168.1.1", "169.254.169.254", "0.0.0.0", "[::1]", "[fe80::1]", "[fd00::1]"]
)
def test_a_private_address_is_refused_before_the_training_unless_it_is_allowed(host: str) -> None:
    with pytest.raises(InvalidRule, match="set allow_private: true if it is meant"):
        _address(f"http://{host}/hook", allow_private=False)
    assert _address(f"http://{host}/hook").host == host.strip("[]")


@pytest.mark.parametrize(
    "text", ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "100.64.0.1", "224.0.0.1", "255.255.255.255"]
)
def test_a_private_address_is_known_in_other_clothes(text: str) -> None:
    assert _is_private(_literal(text))
    assert not _is_private(_literal("93.184.216.34"))
    assert not _is_private(_literal("2606:2800:220:1::1"))


def test_a_name_that_resolves_to_a_private_address_is_refused_without_a_connection(serve) -> None:
    server = serve(204)
    with pytest.raises(DeliveryFailed, match="private, loopback or link-local"):
        _address(server.url("localhost"), allow_private=False).post(b"{}", pause=lambda _seconds: False)
    assert server.requests == []


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(serve, monkeypatch) -> None:
    server = serve(204)
    public, looked_up = "93.184.216.34", []
    connected: list[str] = []
    resolve = socket.getaddrinfo

    def rebinding(host, *rest, **options):
        if host == "rebinding.example":
            looked_up.append(host)
            host = public if len(looked_up) == 1 else "127.0.0.1"
        elif host == public:
            connected.append(host)
            raise OSError("no such route in a test")
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    address = _address(server.url("rebinding.example"), allow_private=False)
    with pytest.raises(DeliveryFailed):
        address.post(b"{}", pause=lambda _seconds: False, tries_again=False)
    with pytest.raises(DeliveryFailed, match="private, loopback or link-local"):
        address.post(b"{}", pause=lambda _seconds: False, tries_again=False)
    assert connected == [public]
    assert (looked_up, server.requests) == (["rebinding.example"] * 2, [])


@pytest.mark.parametrize("url", ["ftp://u:geheim@h/x", "http://", "http://[::1", "http://h:99999/", "http://h/a b\nc"])
def test_what_is_no_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidRule, match="must be an address") as caught:
        _address(url)
    assert "geheim" not in str(caught.value)


class _Finds:
    """A listener that finds something in every step."""

    def begin(self, run: Run, structure: Structure) -> None:
        pass

    def observe(self, record: StepRecord) -> tuple[Finding, ...]:
        return (Finding("r", "unknown", "error", record.step, record.step, "", "", {}, "", ""),)

    def end(self) -> tuple[Finding, ...]:
        return ()


def _ran(url: str, steps: int, timeout_s: float = 5.0) -> float:
    """Return the seconds that the end of a run took."""
    hook = Webhook(_Finds(), url, timeout_s=timeout_s, allow_private=True)
    hook.begin(Run("r", "r", "running", 0.0, 0.0), Structure())
    for step in range(steps):
        hook.observe(StepRecord(step, 0.0))
    begin = time.monotonic()
    hook.end()
    return time.monotonic() - begin


def test_a_row_of_failures_is_told_once_at_every_level_without_a_secret(serve, caplog) -> None:
    with caplog.at_level(logging.DEBUG):
        _ran(serve(503).url(), steps=5)
    told = [record for record in caplog.records if record.name.startswith("mindscope")]
    assert [record.levelname for record in told] == ["WARNING"]
    assert "it answers 503" in told[0].getMessage()
    assert not any(secret in record.getMessage() for record in caplog.records for secret in SECRETS)


def test_a_server_that_never_answers_holds_the_end_up_for_one_timeout_and_is_told(caplog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, caplog.at_level(logging.WARNING):
        took = _ran(f"http://127.0.0.1:{silent.getsockname()[1]}/hidden-path", steps=3, timeout_s=0.5)
    assert took < 5.0
    assert caplog.records
    assert not any("hidden-path" in record.getMessage() for record in caplog.records)
