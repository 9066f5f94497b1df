"""Findings told to a real web server."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.insight import InvalidRule, LiveDiagnosis
from mindscope.insight.webhook import Webhook
from mindscope.probe import ConfigError, Monitor, load_config
from mindscope.storage import Finding, Run, StepRecord, Structure


class Server(HTTPServer):
    """Remembers what it was told."""

    def __init__(self, delay: threading.Event | None = None) -> None:
        self.bodies: list[dict] = []
        self.delay = delay
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=secret"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        if self.server.delay is not None:
            self.server.delay.wait(30)
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever, daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join(30)


def train(folder, webhook: dict, steps: int = 5) -> Monitor:
    webhook = {"allow_private": True, **webhook}
    model = nn.Dense(4, 2, key=Key(0)).set_train()
    optimizer = nn.SGD(model.trainable_params(), 1e-3)
    with ms.watch(model, optimizer, store=folder, run="hooked", config={"webhook": webhook}) as monitor:
        for step in range(steps):
            x = np.full((2, 4), np.nan if step == 3 else 1.0, np.float32)
            ops.square(model(Tensor(x))).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return monitor


def test_each_grave_finding_is_told_once_with_its_run(server: Server, tmp_path) -> None:
    monitor = train(tmp_path, {"url": server.url, "severity": "error"})
    errors = {
        (finding.rule, finding.site, finding.first_step) for finding in monitor.findings if finding.severity == "error"
    }
    delivered = [
        (body["finding"]["rule"], body["finding"]["site"], body["finding"]["first_step"]) for body in server.bodies
    ]
    assert set(delivered) == errors
    assert len(delivered) == len(errors) > 0
    assert {(body["run"], body["name"]) for body in server.bodies} == {(monitor.run.id, "hooked")}


def test_the_address_is_not_recorded(server: Server, tmp_path) -> None:
    train(tmp_path, {"url": server.url}, steps=1)
    assert not any(b"token=secret" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_server_that_does_not_answer_is_said_once_and_costs_nothing(tmp_path, caplog) -> None:
    with caplog.at_level(logging.WARNING, "mindscope.insight.webhook"):
        monitor = train(tmp_path, {"url": "http://127.0.0.1:9/none", "timeout_s": 1})
    assert len(monitor.findings) >= 1
    (reported,) = [record.getMessage() for record in caplog.records if record.name.endswith("webhook")]
    assert "127.0.0.1:9 cannot be reached" in reported
    assert "/none" not in reported
    with ms.open_store(tmp_path) as store:
        assert store.find_run("hooked").state == "finished"


def test_a_training_ends_while_its_first_message_waits_for_an_answer(tmp_path) -> None:
    answer = threading.Event()
    with Server(answer) as slow:
        thread = threading.Thread(target=slow.serve_forever, daemon=True)
        thread.start()
        train(tmp_path, {"url": slow.url, "timeout_s": 0.2})
        assert slow.bodies == []
        with ms.open_store(tmp_path) as store:
            assert store.find_run("hooked").state == "finished"
        answer.set()
        slow.shutdown()
        thread.join(30)


def test_an_answer_that_is_no_http_is_said_once_and_the_next_finding_is_tried(tmp_path, caplog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        requests: list[bytes] = []

        def answer() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    requests.append(peer.recv(1 << 16))
                    peer.sendall(b"what do you want?\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        hook = Webhook(Finder(), url, allow_private=True)
        hook.begin(Run("r", "r", "running", 0.0, 0.0), Structure())
        for step in range(3):
            hook.observe(StepRecord(step, 0.0))
        with caplog.at_level(logging.WARNING, "mindscope.insight.webhook"):
            hook.end()
        listening.shutdown(socket.SHUT_RDWR)
    assert len(requests) >= 3
    assert sum("cannot be reached" in record.getMessage() for record in caplog.records) == 1


class Finder(LiveDiagnosis):
    """Finds one thing in every step."""

    def observe(self, record: StepRecord) -> tuple[Finding, ...]:
        return (Finding("r", "unknown", "error", record.step, record.step, "", "", {}, "", ""),)


def test_an_address_that_is_none_is_refused_before_the_training() -> None:
    with pytest.raises(ConfigError, match="webhook"):
        load_config(webhook={"url": "file:///etc/passwd"})
    with pytest.raises(InvalidRule, match="must be an address"):
        Webhook(LiveDiagnosis(), "ftp://example.org/x")


class Says:
    """A listener that has one finding, and withdraws it in the next record."""

    def __init__(self) -> None:
        self.left = ["warning", "info", "info"]

    def begin(self, run: Run, structure: Structure) -> None:
        pass

    def observe(self, record: StepRecord) -> tuple[Finding, ...]:
        severity = self.left.pop(0)
        return (Finding("frozen-parameter", "frozen_parameter", severity, record.step, 0, "fc", "", {}, severity, ""),)

    def end(self) -> tuple[Finding, ...]:
        return ()


def test_a_finding_that_is_withdrawn_is_sent_once_more(server):
    hook = Webhook(Says(), server.url, allow_private=True)
    hook.begin(Run("run-1", "hooked", "running", 0.0, 0.0), Structure())
    for step in range(3):
        hook.observe(StepRecord(step, float(step)))
    hook.end()
    assert [body["finding"]["severity"] for body in server.bodies] == ["warning", "info"]
