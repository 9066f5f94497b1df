"""The configuration says how much a store keeps: of a run, and of the runs before it."""

import sqlite3
import threading
import time

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Tensor, nn
from mindscope.probe import ConfigError, load_config
from mindscope.storage import blobs_of, open_store

from tests.storage.samples import layout, walk


def write(folder, name, *, days_ago, **begin):
    """Add a run that ended some days ago."""
    with open_store(folder) as store:
        writer = store.begin_run(name, run_id=name, **begin)
        writer.write(walk(40, layout(6)))
        writer.close()
    with sqlite3.connect(folder / f"{name}.rank0.db") as connection:
        connection.execute("UPDATE recording SET updated_at = ?", [time.time() - days_ago * 86400])
        connection.execute("DELETE FROM ledger")


def train(folder, retention):
    """Watch a training for a step, and wait until old runs are removed."""
    model = nn.Dense(3, 2)
    with ms.watch(model, store=folder, config={"retention": retention}, run="new"):
        model(Tensor(np.ones((4, 3), np.float32)))
        for thread in threading.enumerate():
            if thread.name == "mindscope-prune":
                thread.join()


def test_old_runs_are_removed_as_a_run_begins(tmp_path):
    write(tmp_path, "old", days_ago=40)
    write(tmp_path, "kept", days_ago=40, tags={"keep": True})
    write(tmp_path, "young", days_ago=3)
    train(tmp_path, {"keep": "30d"})
    with open_store(tmp_path) as store:
        assert sorted(run.name for run in store.runs()) == ["kept", "new", "young"]


def test_the_oldest_runs_give_way_to_a_size(tmp_path):
    for days in (1, 2, 3):
        write(tmp_path, f"{days}-days", days_ago=days)
        blobs_of(str(tmp_path), f"{days}-days").put(np.zeros(20_000_000, np.uint8))
    train(tmp_path, {"max_size": "50MB"})
    with open_store(tmp_path) as store:
        assert sorted(run.name for run in store.runs()) == ["1-days", "2-days", "new"]


def test_nothing_is_removed_without_being_asked(tmp_path):
    write(tmp_path, "old", days_ago=4000)
    train(tmp_path, {})
    with open_store(tmp_path) as store:
        assert {run.name for run in store.runs()} == {"old", "new"}


def test_times_and_sizes_are_read_and_mistakes_are_told():
    kept = load_config({"retention": {"keep": "2w", "max_size": "10GB", "full": 5, "fine": 6}}).retention
    assert (kept.keep, kept.max_size, kept.full, kept.fine) == (14 * 86400.0, 10 * 10**9, 5, 6)
    for wrong in ({"keep": "30 days"}, {"keep": "0d"}, {"max_size": "much"}, {"max_size": 0}, {"full": 9, "fine": 8}):
        with pytest.raises(ConfigError, match="retention"):
            load_config({"retention": wrong})
