"""Sends findings to a URL as they appear: a small JSON body, from a thread of its own; the training never waits.

    {"run": id, "name": name, "finding": {...}}        the finding as `diagnose --json` prints it

With it come `verdict` and `verdict_words`, the verdict so far. A finding that was sent and is withdrawn is sent once
more, as a notice.

A delivery is tried again after an error of the network or the server, after growing pauses (`webhook_delivery.py`).
What cannot be delivered is dropped and logged once in a row of failures; so is what would make more than a hundred
wait. The end of the training waits for what is queued for some seconds at most.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from ..storage import SEVERITIES, BatchListener, Finding, FindingKey, Listener, Run, Severity, StepRecord, Structure
from .diagnosis import LiveDiagnosis
from .diagnosis_report import finding_to_json
from .webhook_delivery import DeliveryFailed, WebhookAddress

_log = logging.getLogger(__name__)

#: Findings that may wait to be sent.
_CAPACITY: Final = 100
#: The most seconds that the end of a training waits for findings that are queued (our choice).
_END_S: Final = 5.0


class Webhook:
    """A listener that sends the findings of another listener to a URL.

    Args:
        listener: Whose findings they are.
        url: `http` or `https`.
        severity: The least that is sent.
        timeout_s: For one try.
        allow_private: Whether loopback, private and link-local addresses may be posted to.

    Raises:
        InvalidRule: The address is none of the web, or private and not allowed.
    """

    def __init__(
        self,
        listener: Listener,
        url: str,
        *,
        severity: Severity = "warning",
        timeout_s: float = 5.0,
        allow_private: bool = False,
    ) -> None:
        self._address = WebhookAddress(url, timeout_s=timeout_s, allow_private=allow_private)
        self._listener, self._timeout_s = listener, timeout_s
        self._least = SEVERITIES.index(severity)
        self._sent_keys: set[FindingKey] = set()
        self._waiting: deque[bytes] = deque()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._fails = False
        self._run: Run | None = None
        self._thread: threading.Thread | None = None

    def begin(self, run: Run, structure: Structure) -> None:
        """Begin the run for the wrapped listener."""
        self._run = run
        self._listener.begin(run, structure)

    def foresee(self, records: Sequence[StepRecord]) -> None:
        """Pass the coming records to the wrapped listener, if it takes them."""
        if isinstance(self._listener, BatchListener):
            self._listener.foresee(records)

    def observe(self, record: StepRecord) -> Iterable[Finding]:
        """Return the findings of the wrapped listener; queue the new ones for delivery."""
        return self._sent(self._listener.observe(record))

    def end(self) -> Iterable[Finding]:
        """End the wrapped listener; wait for queued findings for at most one try, and some seconds."""
        found = self._sent(self._listener.end())
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(min(self._timeout_s, _END_S))
            if self._thread.is_alive():
                left = len(self._waiting) + 1
                _log.warning("webhook %s: %d findings were not delivered when the run ended", self._address.name, left)
        return found

    def _sent(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        found = tuple(findings)
        for finding in found:
            is_sent, is_severe = finding.key in self._sent_keys, SEVERITIES.index(finding.severity) >= self._least
            if is_severe and not is_sent:
                self._sent_keys.add(finding.key)
                self._send(finding)
            elif is_sent and not is_severe:  # it is withdrawn
                self._sent_keys.remove(finding.key)
                self._send(finding)
        return found

    def _send(self, finding: Finding) -> None:
        if len(self._waiting) >= _CAPACITY:
            _log.warning("webhook: more than %d findings wait; %s is not sent", _CAPACITY, finding.cause)
            return
        run = self._run
        document = {
            "run": run.id if run else "",
            "name": run.name if run else "",
            "finding": finding_to_json(finding),
        }
        if isinstance(self._listener, LiveDiagnosis):
            judged = self._listener.judgement
            document |= {"verdict": judged.verdict, "verdict_words": judged.words}
        self._waiting.append(json.dumps(document).encode())
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="mindscope-webhook", daemon=True)
            self._thread.start()
        self._wake.set()

    def _deliver(self) -> None:
        while self._waiting or not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._post(self._waiting.popleft())

    def _post(self, body: bytes) -> None:
        """Post one document; after a failure, the next ones get a single try until one is delivered."""
        try:
            self._address.post(body, pause=self._over.wait, tries_again=not self._fails)
            self._fails = False
        except DeliveryFailed as error:
            if not self._fails:
                _log.warning(
                    "webhook %s cannot be reached: %s; what is found until it answers is not delivered",
                    self._address.name,
                    error,
                )
            self._fails = True
