"""A store with a run of every kind, for pages that only look."""

import math
import subprocess
import sys

import numpy as np
from mindscope.probe.configuration.sections import MediaSettings
from mindscope.probe.logged_media import MediaLog
from mindscope.storage import StepRecord, Store, open_store

from tests.dashboard.evaluated import write_everything
from tests.dashboard.explained import write_explained
from tests.dashboard.profiled import write_profiled
from tests.dashboard.ranked import write_ranks
from tests.dashboard.recorded import Plan, records, write_run
from tests.dashboard.searched import write_search

#: Every run of the store that has pages of its own, by name.
KINDS = (
    "faulty", "healthy", "four-ranks", "attacked", "imported", "crashed", "failed", "empty", "one-step", "all-nan",
    "drawn",
)  # fmt: skip
_DIES = """
import os, sys
from mindscope.storage import StepRecord, open_store
store = open_store(sys.argv[1])
store.begin_run("crashed").write([StepRecord(step, float(step), scalars={"loss": 1 / (step + 1)}) for step in range(9)])
os._exit(9)
"""


def write_kinds(url: str) -> None:
    """Writes all of them."""
    dying = subprocess.Popen([sys.executable, "-c", _DIES, url])
    with open_store(url) as store:
        write_explained(store)
        write_search(store)
        write_profiled(store)
        write_ranks(store)
        _write_odd(store)
        write_run(store, "healthy", Plan(steps=120, goes_bad=False, spike_at=None, seed=1))
        attacked = write_run(store, "attacked", Plan(steps=40, goes_bad=False, spike_at=None, seed=2))
        write_everything(store, attacked)
        write_run(store, "faulty", Plan(steps=240))
        assert dying.wait(timeout=60) == 9
        assert store.find_run("crashed").state == "crashed"


def _write_odd(store: Store) -> None:
    """Runs that have little to show."""
    store.begin_run("empty").close()
    write_run(store, "one-step", Plan(steps=1, goes_bad=False, spike_at=None))
    failed = store.begin_run("failed")
    failed.write(list(records(Plan(steps=5, goes_bad=False, spike_at=None))))
    failed.close("failed", "RuntimeError: out of memory")
    imported = store.begin_run("imported", kind="imported", framework="tensorboard")
    imported.write(_scalars({"loss": [3.0, 2.0, 1.5], "accuracy": [0.1, 0.4, 0.6]}))
    imported.close()
    _write_media(store)
    nan = store.begin_run("all-nan")
    nan.write(_scalars({"loss": [math.nan] * 5}))
    nan.close()


def _write_media(store: Store) -> None:
    """A run that has logged pictures and a sound."""
    drawn, log = store.begin_run("drawn"), MediaLog(MediaSettings())
    for step in (0, 10):
        events, _ = log.images("samples", [np.full((8, 8), 20 * step, np.uint8)] * 2, (step, 0), "fixed noise", None)
        events += log.audio("speech", np.zeros(800), (step, 0), 8000, "")[0]
        drawn.write([StepRecord(step, 1.0, events=tuple(events))])
    drawn.close()


def _scalars(values: dict[str, list[float]]) -> list[StepRecord]:
    names, columns = list(values), zip(*values.values(), strict=True)
    return [
        StepRecord(step, float(step), scalars=dict(zip(names, row, strict=True))) for step, row in enumerate(columns)
    ]
