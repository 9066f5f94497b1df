"""Many ranks that write one PostgreSQL database: observations a second, loss, connections, and readers meanwhile.

Each rank is a process with a `QueueWriter`, as a training has one; it records everything at every step. Its records are
made in advance, so that the processors work for the store and not for the model of a training. An observation is one
tensor at one step with its ten statistics. The limit beside it is COPY of the same packed bytes into a table like
`hot`, with as many connections as there are processors and nothing else to do.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parent))

from environment import machine
from mindscope.storage import Block, Layout, QueueWriter, StepRecord, StoreError, open_store
from mindscope.storage.encoding.block_packing import pack
from private_postgres import PrivateServer
from store import DTYPES, STATISTICS, result

_RUN = "writers"
#: Records that a rank makes in advance; they come again with new steps.
_MADE = 32
#: Steps that each rank writes before the time is taken: the first statements of a process are compiled, once.
_WARM = 64
_SUBJECTS = ("activation", "gradient", "weight", "update")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the ranks do.

    Args:
        tensors: Of each subject of a rank.
        rate: Observations a second that all ranks together are to make; 0 for as many as they can.
    """

    url: str
    ranks: int
    steps: int
    tensors: int
    rate: float = 0.0

    @property
    def observations(self) -> int:
        """Of all ranks together."""
        return self.ranks * self.steps * self.tensors * len(_SUBJECTS)


def records(plan: Plan, seed: int) -> list[StepRecord]:
    """Return the records of some steps: everything of a model."""
    random = np.random.default_rng(seed)
    sites = tuple(f"layer.{at}" for at in range(plan.tensors))
    layouts = [Layout(subject, sites, STATISTICS, DTYPES) for subject in _SUBJECTS]
    made = []
    for step in range(_MADE):
        blocks = []
        for layout in layouts:
            values = np.zeros((plan.tensors, 10))
            values[:, :5] = random.normal(size=(plan.tensors, 5))
            values[:, 5] = random.integers(0, 500, plan.tensors)
            values[:, 9] = 4096
            blocks.append(Block(layout, values))
        made.append(StepRecord(step, 0.0, blocks=tuple(blocks), scalars={"loss": 1 / (step + 1), "lr": 0.1}))
    return made


def _rank(plan: Plan, rank: int, start: Barrier, answers: Any) -> None:
    """Write as one rank, and answer with (begin, end, lost, longest put in seconds, or an error)."""
    made = records(plan, rank)
    pause = plan.ranks * plan.tensors * len(_SUBJECTS) / plan.rate if plan.rate else 0.0
    try:
        store = open_store(plan.url)
        queue = QueueWriter(store.begin_run("writers", run_id=_RUN, rank=rank))
    except Exception as error:  # noqa: BLE001  it is the answer
        start.wait()
        answers.put((0.0, 0.0, 0, 0.0, f"{type(error).__name__}: {error}"))
        return
    for step in range(_WARM):
        queue.put(replace(made[step % _MADE], step=step, time=time.time()))
    queue.flush(300)
    start.wait()
    begin, longest = time.monotonic(), 0.0
    for step in range(plan.steps):
        record = replace(made[step % _MADE], step=_WARM + step, time=time.time())
        time.sleep(max(begin + step * pause - time.monotonic(), 0.0) if pause else 0.0)
        at = time.monotonic()
        queue.put(record)
        longest = max(longest, time.monotonic() - at)
    is_whole = queue.flush(300)
    end = time.monotonic()
    queue.close(timeout=300)
    answers.put((begin, end, queue.lost, longest, "" if is_whole else "not written within 300 s"))


def _read(url: str, ranks: int, start: Barrier, is_over: Event, answers: Any) -> None:
    """Read as a dashboard does until the ranks are done; answer with the seconds of each read."""
    times: list[float] = []
    with open_store(url) as store:
        start.wait()
        at = 0
        while not is_over.wait(0.1):
            of_rank = at * 7 % ranks
            reads: tuple[Callable[[], object], ...] = (
                partial(store.version, _RUN),
                partial(store.series, _RUN, f"layer.{at % 20}", "activation/std", rank=of_rank),
                partial(store.matrix, _RUN, "gradient/l2_norm", rank=of_rank),
                partial(store.series, _RUN, "", "scalar/loss", rank=of_rank),
            )
            for read in reads:
                begin = time.monotonic()
                with suppress(StoreError):  # a rank that has not begun
                    read()
                    times.append(time.monotonic() - begin)
            at += 1
    answers.put(times)


@contextmanager
def _processes(context: Any, jobs: Sequence[tuple[Any, tuple[Any, ...]]]) -> Iterator[list[Any]]:
    started = [context.Process(target=target, args=arguments) for target, arguments in jobs]
    for process in started:
        process.start()
    yield started
    for process in started:
        process.join()


def _connections(url: str) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        query = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def measure(plan: Plan, case: str, target: float | None) -> list[dict[str, object]]:
    """Let the ranks write and a reader read."""
    context = multiprocessing.get_context("fork")
    start, is_over = context.Barrier(plan.ranks + 2), context.Event()
    answers, reads = context.Queue(), context.Queue()
    jobs: list[tuple[Any, tuple[Any, ...]]] = [(_rank, (plan, rank, start, answers)) for rank in range(plan.ranks)]
    jobs.append((_read, (plan.url, plan.ranks, start, is_over, reads)))
    with _processes(context, jobs):
        start.wait()
        time.sleep(1.0)
        connections = _connections(plan.url)
        found = [answers.get() for _ in range(plan.ranks)]
        is_over.set()
        times = reads.get()
    failed = [answer[4] for answer in found if answer[4]]
    well = [answer for answer in found if not answer[4]]
    lost = sum(answer[2] for answer in found)
    written = (len(well) * plan.steps - lost) * plan.tensors * len(_SUBJECTS)
    rate = written / (max(one[1] for one in well) - min(one[0] for one in well)) if well else 0.0
    p95 = float(np.percentile(times, 95)) * 1e3 if times else 0.0
    return [
        result(case, "observations", rate, "observations/s", target),
        result(case, "lost records", lost, "records", 0),
        result(case, "ranks that failed", len(failed), "ranks", 0, note=failed[0][:200] if failed else ""),
        result(case, "connections", connections, "connections", plan.ranks + 1),
        result(case, "readers, p50", statistics.median(times) * 1e3 if times else 0.0, "ms"),
        result(case, "readers, p95", p95, "ms", 200, note=f"{len(times)} reads"),
        result(case, "longest put", max(answer[3] for answer in found) * 1e3, "ms"),
    ]


def limit(url: str, plan: Plan) -> dict[str, object]:
    """Return the rate of COPY of the same packed bytes, 64 records a row as the store has them."""
    made = records(plan, 0)
    data = [b"".join(pack(record.blocks[at]) for record in made) * 2 for at in range(len(_SUBJECTS))]
    context = multiprocessing.get_context("fork")
    processors = os.cpu_count() or 1
    rounds = max(plan.observations // (64 * plan.tensors * len(_SUBJECTS) * processors), 1)
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, stream bigint, step bigint, data bytea)")
        connection.execute("ALTER TABLE bare ALTER data SET STORAGE EXTERNAL")
        connection.execute("CREATE UNIQUE INDEX ON bare (stream, step)")
    begin = time.monotonic()
    with _processes(context, [(_copy, (plain, data, rounds, number)) for number in range(processors)]):
        pass
    count = rounds * processors * 64 * plan.tensors * len(_SUBJECTS)
    size = sum(map(len, data)) * rounds * processors
    rate = count / (time.monotonic() - begin)
    note = f"{size / count:.0f} bytes/observation"
    return result("limit", "COPY of the same bytes", rate, "observations/s", note=note)


def _copy(url: str, data: list[bytes], rounds: int, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET synchronous_commit = off")
        for turn in range(rounds):
            with connection.cursor().copy("COPY bare (stream, step, data) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "int8", "bytea"])
                for at, each in enumerate(data):
                    copy.write_row([number * 1000 + at, turn, each])
            connection.commit()


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="a quarter of the steps")
    parser.add_argument("--ranks", type=int, default=64)
    arguments = parser.parse_args()
    steps = 100 if arguments.quick else 400
    rows: list[dict[str, object]] = []
    for case, rate in (("as fast as they can", 0.0), ("at 300,000 a second", 300_000.0)):
        with PrivateServer({"shared_buffers": "256MB"}) as server:
            plan = Plan(server.url, arguments.ranks, steps, tensors=100, rate=rate)
            rows += measure(plan, f"{arguments.ranks} ranks, {case}", None if rate else 300_000)
            if not rate:
                rows.append(limit(server.url, plan))
    if arguments.json:
        document = {"benchmark": "store_writers", "machine": machine(), "temporary": tempfile.gettempdir()}
        json.dump({**document, "results": rows}, sys.stdout, indent=1)
        print()
        return
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row["ok"]]  # type: ignore[index]
        target = "" if row["target"] is None else f"target {row['target']:g}"
        print(
            f"{row['case']:<34} {row['metric']:<26} {row['value']:>14,.1f} {row['unit']:<16} {target:<16} {verdict}"
            f" {row.get('note', '')}"
        )


if __name__ == "__main__":
    main()
