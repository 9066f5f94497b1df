"""Injects hangs, and measures when each is reported and whether the right rank is named for the right reason."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from mindscope.insight import diagnose
from mindscope.insight.hangs.hang_report import HangReport, report_of
from mindscope.insight.hangs.observation import hang_of_run
from mindscope.storage import Store, open_store
from mindscope.storage.errors import RunNotFound, StoreError

from .faults import FAULTS, Fault
from .training import Job, start

#: What the issue asks for.
DETECTED_S, NAMED_S = 15.0, 20.0
_POLL_S = 0.25
_START_S = 90.0
#: How a rank's log tells that our own code has failed.
_FAILED = "the heartbeat failed"


@dataclass
class Outcome:
    """What became of one injected hang.

    Args:
        detected_s: Seconds from the fault to the finding in the store; None without one.
        named_s: Seconds to a report that names exactly the culprit, for the right reason; None without one.
        kind, culprits, words: Of the last report.
        faults: What the ranks' logs tell of failures of ours; empty when all is well.
    """

    case: str
    size: int
    culprit: int
    detected_s: float | None = None
    named_s: float | None = None
    kind: str = ""
    culprits: tuple[int, ...] = ()
    words: str = ""
    is_explained_afterwards: bool = False
    is_diagnosed_offline: bool = False
    faults: str = ""

    @property
    def is_detected(self) -> bool:
        """Whether it was reported in time."""
        return self.detected_s is not None and self.detected_s <= DETECTED_S

    @property
    def is_named(self) -> bool:
        """Whether the culprit was named in time."""
        return self.named_s is not None and self.named_s <= NAMED_S

    def row(self) -> dict[str, Any]:
        """Return the outcome as a row of the results."""
        return {**asdict(self), "culprits": list(self.culprits), "detected": self.is_detected, "named": self.is_named}


def cases(sizes: Sequence[int], seed: int) -> list[tuple[str, int, int]]:
    """Return (fault, ranks, culprit): each fault at every size that can have it, in an order of this seed."""
    rng = random.Random(seed)
    found = [
        (name, size, rng.randrange(1, size))
        for size in sizes
        for name, fault in FAULTS.items()
        if size >= fault.least_ranks
    ]
    rng.shuffle(found)
    return found


def inject(name: str, size: int, culprit: int) -> Outcome:
    """Let one training hang and watch the store from outside."""
    fault, outcome = FAULTS[name], Outcome(name, size, culprit)
    with _job(size, culprit, fault) as (job, _), open_store(job.store) as store:
        began = _wait_for_mark(job)
        if began is None:
            outcome.words = "the fault was not reached"
            return outcome
        while time.time() - began < NAMED_S and outcome.named_s is None:
            time.sleep(_POLL_S)
            _look(store, fault, outcome, time.time() - began)
        logs = [log.read_text(errors="replace") for log in sorted(job.folder.glob("*.log"))]
        outcome.faults = "\n".join(text[text.index(_FAILED) :][:3000] for text in logs if _FAILED in text)
    return outcome


def _look(store: Store, fault: Fault, outcome: Outcome, after_s: float) -> None:
    try:
        run = store.find_run("latest")
        findings = [found for found in store.findings(run.id) if found.rule == "hang" and found.severity != "info"]
        events = [event for rank in run.ranks for event in store.events(run.id, rank=rank, kind="hang")]
    except (RunNotFound, StoreError):
        return
    if not findings or not events:
        return
    if outcome.detected_s is None:
        outcome.detected_s = round(after_s, 2)
    report = report_of(events[-1].data)
    outcome.kind, outcome.culprits, outcome.words = report.kind, report.culprits, report.words
    if _is_right(fault, outcome, report):
        outcome.named_s = round(after_s, 2)
        afterwards, _ = hang_of_run(store, run.id)
        outcome.is_explained_afterwards = _is_right(fault, outcome, afterwards)
        outcome.is_diagnosed_offline = any(found.rule == "hang" for found in diagnose(store, run.id).findings)


def _is_right(fault: Fault, outcome: Outcome, report: HangReport) -> bool:
    expected = set(range(outcome.size)) if fault.are_all else {outcome.culprit}
    return report.kind in fault.kinds and (set(report.culprits) == expected or fault.are_all)


def control(job_of: dict[str, Any], seconds: float) -> tuple[int, str]:
    """Run a healthy training for some seconds; return how many hangs were reported, and what the first said."""
    with _job(**job_of) as (job, processes), open_store(job.store) as store:
        _wait_until(processes, seconds)
        run = store.find_run("latest")
        found = [one for one in store.findings(run.id) if one.rule == "hang"]
        return len(found), found[0].explanation if found else ""


def _wait_until(processes: Sequence[BaseProcess], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(process.is_alive() for process in processes):
        time.sleep(_POLL_S)


@contextmanager
def _job(
    size: int, culprit: int = 1, fault: Fault | None = None, **options: Any
) -> Iterator[tuple[Job, list[BaseProcess]]]:
    """Start a training, and end whatever is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="hangs-"))
    job = Job(folder, size, culprit, fault, **options)
    job.store.mkdir()
    processes = start(job)
    try:
        yield job, processes
    finally:
        for process in processes:
            if process.is_alive() and process.pid is not None:
                _end_children(process.pid)
                os.kill(process.pid, signal.SIGKILL)
        for process in processes:
            process.join(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _end_children(pid: int) -> None:
    from mindscope.storage.process import children_of

    for child in children_of(pid):
        os.kill(child, signal.SIGKILL)


def _wait_for_mark(job: Job) -> float | None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if job.mark.exists():
            return float(job.mark.read_text())
        time.sleep(0.05)
    return None
