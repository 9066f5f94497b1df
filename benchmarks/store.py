"""Speed and size of the store: appended observations, bytes, reads, and what the training thread pays.

The data is a model of a training, not a training: 1000 tensors whose five floating statistics wander by 2 % a step
with fresh noise in every bit, zeros counted anew every step, no non-finite values, constant sizes. An observation is
one tensor at one step with its ten statistics. Rates are given by the wall clock and by the processor's time, which
other programs on the machine disturb less.
"""

import argparse
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from environment import machine
from mindscope.storage import Block, Layout, QueueWriter, RunWriter, StepRecord, open_store
from mindscope.storage.encoding.block_packing import pack

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
DTYPES = ("float32",) * 5 + ("uint64",) * 5
TENSORS = 1000
BATCH = 16


class Training:
    """Makes the records of a modelled training, one after the other."""

    def __init__(self, tensors: int, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.layout = Layout("gradient", tuple(f"layer.{at}" for at in range(tensors)), STATISTICS, DTYPES)
        self._state = np.exp(self._random.normal(size=(tensors, 5)))
        self._size = np.exp2(self._random.integers(6, 22, tensors)).astype(float)
        self._step = 0

    def __iter__(self) -> "Training":
        return self

    def __next__(self) -> StepRecord:
        tensors = len(self._size)
        self._state *= 1 + 0.02 * self._random.normal(size=self._state.shape)
        values = np.zeros((tensors, 10))
        values[:, :5] = self._state
        values[:, 5] = self._random.binomial(self._size.astype(int), 0.01)
        values[:, 9] = self._size
        step, self._step = self._step, self._step + 1
        return StepRecord(step, time.time(), blocks=(Block(self.layout, values),), scalars={"loss": 1 / (step + 1)})

    def take(self, count: int) -> list[StepRecord]:
        """The next records."""
        return [next(self) for _ in range(count)]


class Bare:
    """The same packed inserts by sqlite3 alone, with the store's own pragmas."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("page_size=4096", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=NORMAL"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        self._connection.execute(
            "CREATE TABLE hot(id INTEGER PRIMARY KEY, stream, step, micro_step, time, codec, data, "
            "UNIQUE(stream, step, micro_step))"
        )

    def write(self, records: list[StepRecord]) -> None:
        """Packs and inserts records in one transaction."""
        rows = [(1, one.step, 0, one.time, 1, pack(one.blocks[0])) for one in records]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO hot(stream,step,micro_step,time,codec,data) VALUES(?,?,?,?,?,?)", rows
        )
        self._connection.execute("COMMIT")

    def checkpoint(self) -> None:
        """Writes the log back."""
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()


def result(case: str, metric: str, value: float, unit: str, target: float | None = None, **more: object) -> dict:
    """One line of the answer; with a target, whether it is met: at least for rates, at most for the rest."""
    ok = None if target is None else (value >= target if unit.endswith("/s") else value <= target)
    row = {"case": case, "metric": metric, "value": round(value, 5), "unit": unit, "limit": None, "peers": {}}
    return {**row, "target": target, "ok": ok, **more}


def appending(folder: Path, steps: int) -> list[dict]:
    """Observations per second, store and bare sqlite3 turn by turn; a second bare one is the control."""
    with open_store(folder / "append") as store:
        writer = store.begin_run("append")
        bare, control = Bare(folder / "bare.db"), Bare(folder / "control.db")
        training = Training(TENSORS)
        names = ("store", "bare", "control", "house")
        spent: dict[str, list[float]] = {name: [] for name in names}
        worked: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(steps // BATCH):
            records = training.take(BATCH)
            order = [("store", writer.write), ("bare", bare.write), ("control", control.write)]
            for name, write in (*order[turn % 3 :], *order[: turn % 3], ("house", lambda _records: _tidy(writer))):
                begin = time.process_time()
                spent[name].append(_timed(lambda write=write, records=records: write(records)))
                worked[name].append(time.process_time() - begin)
            if turn % 25 == 24:
                bare.checkpoint()
                control.checkpoint()
        writer.close()
        bare.close()
        control.close()
    rows = []
    for clock, times in (("wall clock", spent), ("processor time", worked)):
        total = {name: sum(one) for name, one in times.items()}
        count = BATCH * TENSORS * len(times["store"])
        peers = {"bare sqlite3": round(count / total["bare"])}
        target = 3e6 if clock == "wall clock" else None
        case = f"append, {clock}"
        kept = count / (total["store"] + total["house"])
        rows += [
            result(case, "packed, through Core", count / total["store"], "observations/s", target, peers=peers),
            result(case, "with compaction, checkpoints", kept, "observations/s", peers=peers),
            result(case, "store / bare sqlite3", _ratio(times["store"], times["bare"]), "ratio"),
            result(case, "control: bare / bare", _ratio(times["control"], times["bare"]), "ratio"),
        ]
    return rows


def _ratio(left: list[float], right: list[float]) -> float:
    return statistics.median(left) / statistics.median(right)


def _timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _tidy(writer: RunWriter) -> None:
    while writer.maintain():
        pass


def fill(folder: Path, steps: int) -> str:
    """A finished run of so many steps; its id."""
    with open_store(folder) as store:
        writer = store.begin_run("filled")
        training = Training(TENSORS)
        for _ in range(steps // 64):
            writer.write(training.take(64))
            _tidy(writer)
        writer.write(training.take(steps % 64))
        writer.close()
        return writer.run.id


def sizes(folder: Path, run: str, name: str) -> list[dict]:
    """Bytes an observation takes, by what has been compacted and by the whole file."""
    path = folder / f"{run}.rank0.db"
    with sqlite3.connect(path) as connection:
        tier_1 = connection.execute("SELECT sum(length(data)) FROM chunk WHERE tier = 1").fetchone()[0]
        tiers = connection.execute("SELECT sum(length(data)) FROM chunk WHERE tier > 1").fetchone()[0]
        spans = connection.execute("SELECT sum(length(data)), sum(count) FROM span").fetchone()
        count = connection.execute(
            "SELECT sum(span.count) FROM span JOIN stream ON stream.id = span.stream WHERE stream.subject = 'gradient'"
        ).fetchone()[0]
        steps = connection.execute("SELECT last_step + 1 FROM recording").fetchone()[0]
    connection.close()
    compacted = count * TENSORS
    return [
        result(f"size, {name}", "tier 1", (tier_1 + spans[0]) / compacted, "bytes/observation", 18),
        result(f"size, {name}", "all tiers", (tier_1 + tiers + spans[0]) / compacted, "bytes/observation", 24),
        result(f"size, {name}", "whole file", os.path.getsize(path) / (steps * TENSORS), "bytes/observation"),
    ]


def reading(folder: Path, run: str, steps: int, name: str, repeats: int) -> list[dict]:
    """Latencies of the reads that the dashboard makes, first in a fresh store, then warm."""
    last = steps - 1
    targets = {"one series": 5, "matrix of the run": 10, "one old step": None, "matrix of the last 100 steps": None}
    rows = []
    with open_store(folder) as store:
        cases = {
            "one series": lambda at: store.series(run, f"layer.{at * 37 % TENSORS}", "gradient/l2_norm"),
            "one old step": lambda at: list(store.replay(run, first=at * 91 % steps, last=at * 91 % steps)),
            "matrix of the run": lambda at: store.matrix(run, "gradient/l2_norm"),
            "matrix of the last 100 steps": lambda at: store.matrix(run, "gradient/l2_norm", first=last - 99),
            "series of the last 100 steps": lambda at: store.series(run, "layer.5", "gradient/std", first=last - 99),
            "version": lambda at: store.version(run),
        }
        for case, read in cases.items():
            times = [_timed(lambda at=at, read=read: read(at)) * 1e3 for at in range(repeats + 1)]
            cold = f"first call {times[0]:.2f} ms"
            rows.append(result(f"read, {name}", case, statistics.median(times[1:]), "ms", targets.get(case), note=cold))
    return rows


def handing_over(folder: Path, tensors: int, steps: int, target: float) -> list[dict]:
    """What `put` costs a training that multiplies matrices meanwhile."""
    rows = []
    with open_store(folder / f"put{tensors}") as store:
        queue = QueueWriter(store.begin_run("put"))
        training = Training(tensors)
        matrix = np.random.default_rng(0).normal(size=(300, 300))
        times, idle = [], []
        for record in training.take(steps):
            for _ in range(4):
                matrix = np.tanh(matrix @ matrix)
            times.append(_timed(lambda record=record: queue.put(record)) * 1e3)
            idle.append(_timed(lambda: None) * 1e3)
        queue.close()
        name = f"hand-over, T = {tensors}"
        rows.append(result(name, "p50", float(np.percentile(times, 50)), "ms"))
        rows.append(result(name, "p99", float(np.percentile(times, 99)), "ms", target, note=f"lost {queue.lost}"))
        rows.append(result(name, "control: p99 of doing nothing", float(np.percentile(idle, 99)), "ms"))
    return rows


def measure(quick: bool) -> list[dict]:
    folder = Path(tempfile.mkdtemp(prefix="mindscope-bench-"))
    try:
        rows = appending(folder, 1024 if quick else 4096)
        for name, steps in [("1M", 1000)] + ([] if quick else [("10M", 10_000)]):
            run = fill(folder / name, steps)
            rows += sizes(folder / name, run, name)
            rows += reading(folder / name, run, steps, name, 10 if quick else 30)
        rows += handing_over(folder, 1000, 300 if quick else 2000, 0.2)
        rows += handing_over(folder, 10_000, 60 if quick else 300, 0.5)
        return rows
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="under a minute")
    arguments = parser.parse_args()
    rows = measure(arguments.quick)
    if arguments.json:
        versions = {name: version(name) for name in ("numpy", "sqlalchemy", "zstandard")}
        versions |= {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
        json.dump(
            {"benchmark": "store", "machine": machine(), "versions": versions, "results": rows}, sys.stdout, indent=1
        )
        print()
        return
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row["ok"]]
        target = "" if row["target"] is None else f"target {row['target']:g}"
        value = f"{row['value']:>14,.3f} {row['unit']:<18}"
        print(f"{row['case']:<24} {row['metric']:<30} {value} {target:<14} {verdict} {row.get('note', '')}")


if __name__ == "__main__":
    main()
