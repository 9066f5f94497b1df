"""A hang is told while no record comes, and again from the store; it is withdrawn when the training goes on."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mindscope.insight import LiveDiagnosis, diagnose
from mindscope.storage import Event, QueueWriter, StepRecord, open_store
from mindscope.storage.last_words import FolderWords

from .words import call, word

HANG = {"state": "hang", "kind": "sleep", "words": "rank 1 sleeps at train.py:50", "culprits": [1], "waiting": []}


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_a_reported_hang_is_a_finding_at_once_and_offline(tmp_path: Path) -> None:
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("pair")
        run = writer.run.id
        queue = QueueWriter(writer, [LiveDiagnosis()])
        queue.put(StepRecord(0, 1.0, scalars={"loss": 1.0}))
        queue.report(Event("hang", 1, data={**HANG, "step": 1}))
        until(lambda: [found for found in store.findings(run) if found.rule == "hang"])
        (finding,) = (found for found in store.findings(run) if found.rule == "hang")
        assert (finding.rank, finding.explanation, finding.severity) == (1, "rank 1 sleeps at train.py:50", "error")
        assert [found.rule for found in diagnose(store, run).root_causes] == ["hang"]
        queue.report(Event("hang_over", 1, data={"step": 1}))
        until(lambda: [found for found in store.findings(run) if found.severity == "info"])
        queue.close()
        (finding,) = (found for found in diagnose(store, run).findings if found.rule == "hang")
        assert finding.severity == "info"
        assert finding.explanation.startswith("the training went on after this")


def test_a_hang_that_no_rank_lived_to_report_is_told_from_the_last_words(tmp_path: Path) -> None:
    with open_store(str(tmp_path)) as store:
        writer = store.begin_run("pair", rank=0)
        run = writer.run.id
        other = store.begin_run("pair", run_id=run, rank=1)
        for one in (writer, other):
            one.write([StepRecord(0, 1.0, scalars={"loss": 1.0})])
        words = FolderWords(tmp_path, run)
        native = (replace(call(4), state="enqueued"),)
        error = "gloo: Connection closed by peer"
        words.write(0, word(0, [], phase="failed", error=error, native=native, step=4).encode())
        words.write(1, word(1, [], phase="finished", step=3).encode())
        words.close()
        data = {"type": "RuntimeError", "message": error}
        writer.write_events([Event("exception", 1, data=data)])
        other.close()
        writer.close("failed", f"RuntimeError: {error}")
        (root,) = diagnose(store, run).root_causes
        assert (root.cause, root.rank) == ("hang", 1)
        assert "rank 1 has ended its training" in root.explanation
