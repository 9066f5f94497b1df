"""kill -9 at random moments: the store opens, is intact, and has lost at most the queue."""

import json
import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mindscope.storage import open_store

QUEUE = 64


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_demo_leaves_a_store_that_lacks_at_most_the_queue(
    seed: int, start: Callable, finish: Callable, tmp_path: Path
) -> None:
    moment = random.Random(seed)
    lines_until = moment.randint(1, 8)
    child = start("demo", "--model", "cnn", "--steps", 600, "--no-dashboard")
    done = _read_until(child, lines_until)
    time.sleep(moment.uniform(0.0, 0.05))
    child.kill()
    done = max([done, *_steps(child.communicate()[0])])

    (path,) = (tmp_path / "runs").glob("*.rank0.db")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with open_store(str(tmp_path / "runs")) as store:
        (run,) = store.runs()
        steps = [record.step for record in store.replay(run.id)]
    assert run.state == "crashed"
    assert steps == list(range(len(steps)))
    assert len(steps) >= done - QUEUE
    listed = json.loads(finish("runs", "runs/", "--json").stdout)["runs"]
    assert [entry["state"] for entry in listed] == ["crashed"]


def _read_until(child: object, lines: int) -> int:
    """The last step told when that many lines of progress have been read."""
    done = 0
    for line in child.stdout:
        told = _steps(line)
        lines -= bool(told)
        done = max([done, *told])
        if lines <= 0:
            break
    return done


def _steps(text: str) -> list[int]:
    return [int(step) for step in re.findall(r"step (\d+)/", text)]
