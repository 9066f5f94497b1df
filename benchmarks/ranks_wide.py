"""Thousands of ranks: what their roll-up costs and takes, how soon the page Ranks shows it, and who stands out.

The ranks are simulated: at each step one array holds what all ranks recorded of all sites, and is handed to the
recorder of roll-ups as a collector hands it over when the last rank has come. One rank is slow for a while, and others
stand out at one site each.

    bytes    the store after the run, and of a job with an eighth of the ranks: more ranks must not take more
    page     seconds of the page Ranks and of what it draws, each time from a store that was opened anew
    visible  a process writes steps at a pace and makes a rank slow at a step; how long until the page, which looks
             every 2 s, has it in its first sentence
    a rank   processor time of handing a record over, alone and while another process rolls the run up, turn by turn
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from environment import machine
from mindscope.dashboard.app import page_at
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight.rank_times import with_work
from mindscope.insight.rank_verdict import rank_verdict
from mindscope.storage import Layout, QueueWriter, open_store
from mindscope.storage.ranks.rank_stack import RankStack, StackedBlock
from mindscope.storage.ranks.rollup_recorder import RollupOptions, RollupRecorder
from mindscope.storage.ranks.topology import topology_of_mesh
from store import result

#: Steps that are drawn at random; they come again, scaled, with new numbers.
_DRAWN = 8
_RUN = "wide"
#: How often the page looks for news, in seconds.
_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """A simulated training.

    Args:
        slow_from: Step from which on one rank works half a second longer.
    """

    ranks: int
    sites: int
    steps: int
    seed: int
    slow_from: int

    @property
    def slow_rank(self) -> int:
        """The rank that becomes slow."""
        return self.ranks * 3 // 7

    def layout(self) -> Layout:
        """What each rank records of each site."""
        return Layout("activation", tuple(f"layer.{at}" for at in range(self.sites)), ("l2_norm",), ("float32",))

    def recorder(self, folder: Path) -> RollupRecorder:
        """Return the recorder of the job's roll-up."""
        tensor, pipeline = (8, 4) if self.ranks >= 256 else (2, 2)
        mesh = {"data": self.ranks // (tensor * pipeline), "pipeline": pipeline, "tensor": tensor}
        topology = topology_of_mesh([f"node-{rank // 8:03d}" for rank in range(self.ranks)], mesh)
        options = RollupOptions(framework="simulated", derive=with_work)
        return RollupRecorder(open_store(folder), _RUN, _RUN, topology, options)

    def stacks(self) -> Iterator[RankStack]:
        """Yield the steps: values that wander, a loss, and where the time went."""
        random = np.random.default_rng(self.seed)
        shape = (_DRAWN, self.sites, 1, self.ranks)
        drawn = np.exp(0.2 * random.standard_normal(shape, dtype=np.float32))
        times = np.abs(random.normal(0.1, 0.002, (_DRAWN, 4, self.ranks)))
        layout, ranks, phases = self.layout(), np.arange(self.ranks), ("data", "forward", "backward", "optimizer")
        for step in range(self.steps):
            at = step % _DRAWN
            values = drawn[at] * np.float32(1 + 0.1 * np.sin(step / 300))
            if step % 500 == 250:  # someone stands out for a step
                values[step % self.sites, 0, step * 31 % self.ranks] = 1e4
            spent = times[at].copy()
            if step >= self.slow_from:
                spent[1, self.slow_rank] += 0.5
            longest = spent[:2].sum(axis=0).max()
            spent[2] += longest - spent[:2].sum(axis=0)  # the backward pass ends on all together
            scalars = {f"time/{name}_seconds": spent[row] for row, name in enumerate(phases)}
            scalars |= {"step_seconds": spent.sum(axis=0), "loss": 2.0 + 0.01 * drawn[at, 0, 0].astype(float)}
            yield RankStack(step, time.time(), ranks, {layout: StackedBlock(values)}, scalars)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def writing(job: Job, folder: Path) -> tuple[list[dict[str, Any]], float]:
    """Roll the job up; return the figures and the bytes of a step."""
    recorder, rolling = job.recorder(folder), 0.0
    begin = time.perf_counter()
    for stack in job.stacks():
        at = time.perf_counter()
        recorder.add_step(stack)
        rolling += time.perf_counter() - at
    recorder.close()
    spent, size = time.perf_counter() - begin, _size(folder)
    case = f"{job.ranks} ranks x {job.sites} sites x {job.steps} steps"
    values = job.ranks * job.sites * job.steps
    return [
        result(case, "simulated and rolled up", spent, "s"),
        result(case, "rolled up", job.steps / rolling, "steps/s"),
        result(case, "values rolled up", values / rolling, "values/s"),
        result(case, "store", size / 1e6, "MB"),
        result(case, "bytes per rank and step", size / job.ranks / job.steps, "B", target=64.0),
        result(case, "against every value in float32", 100 * size / (4 * values), "%"),
    ], size / job.steps


def bounded(job: Job, folder: Path, a_step: float) -> list[dict[str, Any]]:
    """Compare the bytes of a step with those of fewer ranks."""
    small = replace(job, ranks=job.ranks // 8, steps=min(job.steps, 1024), slow_from=min(job.steps, 1024) // 2)
    _, of_small = writing(small, folder)
    return [result("bytes of a step", f"{job.ranks} ranks against {small.ranks}", a_step / of_small, "", target=1.25)]


def page(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Open the page Ranks from a store that was just opened, and its verdict alone."""
    pages, verdicts, sentence = [], [], ""
    for _ in range(rounds):
        with open_store(folder) as store:
            begin = time.perf_counter()
            reader = Reader(store)
            reader.begin_answer()  # as the application does with each request
            page_at(reader, "/ranks", f"?run={_RUN}")
            pages.append(time.perf_counter() - begin)
        with open_store(folder) as store:
            begin = time.perf_counter()
            sentence = rank_verdict(store, store.find_run(_RUN)).sentence
            verdicts.append(time.perf_counter() - begin)
    return [
        result("page Ranks", "read and laid out, slowest", max(pages), "s", target=1.0),
        result("page Ranks", "who, since when, what it costs", max(verdicts), "s", note=sentence),
    ]


def _write_live(job: Job, folder: Path, pace_s: float, began: Any) -> None:
    """Write steps at a pace; tell when the step ended from which on a rank is slow."""
    recorder = job.recorder(folder)
    at = time.monotonic()
    for stack in job.stacks():
        at += pace_s
        while (left := at - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            recorder.tick()
        if stack.step == job.slow_from:
            began.put(time.monotonic())
        recorder.add_step(stack)
    recorder.close()


def visible(job: Job, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return how long it takes until the first sentence names a rank that became slow."""
    context = multiprocessing.get_context("fork")
    found: list[float] = []
    random = np.random.default_rng(job.seed)
    for turn in range(rounds):
        place, began = folder / f"{turn}", context.Queue()
        live = replace(job, steps=24, slow_from=8 + int(random.integers(0, 4)), seed=job.seed + turn)
        writer = context.Process(target=_write_live, args=(live, place, 0.5, began))
        writer.start()
        since = began.get()
        time.sleep(float(random.uniform(0.0, _LOOK_S)) % _LOOK_S)
        with open_store(place) as store:
            while not _is_named(store, live) and time.monotonic() - since < 15.0:
                time.sleep(_LOOK_S)
        found.append(time.monotonic() - since)
        writer.join()
    case = f"a slow rank among {job.ranks}, live, seconds after its step"
    return [
        result(case, "half of them", statistics.median(found), "s"),
        result(case, "the last", max(found), "s", target=3.0, note=f"{rounds} ranks, a look every {_LOOK_S:g} s"),
    ]


def _is_named(store: Any, job: Job) -> bool:
    verdict = rank_verdict(store, store.find_run(_RUN))
    return f"ank {job.slow_rank} " in " ".join((verdict.sentence, *verdict.further))


def _hand_over(folder: Path, job: Job, count: int, rank: int) -> float:
    """Return the processor time of handing over records as one rank, of this thread."""
    stack = next(job.stacks())
    record = stack.record_of(0)
    with open_store(folder) as store:
        queue = QueueWriter(store.begin_run("rank", run_id="rank", rank=rank))
        spent = 0.0
        for step in range(count):
            at = time.thread_time()
            queue.put(replace(record, step=step, time=time.time()))
            spent += time.thread_time() - at
            time.sleep(0.001)
        queue.close(timeout=60)
    return spent / count


def a_rank(job: Job, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Hand records over alone, and while another process rolls up thousands of ranks, turn by turn."""
    context = multiprocessing.get_context("fork")
    small = replace(job, ranks=16)
    alone, beside = [], []
    for turn in range(rounds):
        alone.append(_hand_over(folder / "alone", small, 300, turn))
        rolling = context.Process(target=_write_live, args=(job, folder / f"r{turn}", 0.05, context.Queue()))
        rolling.start()
        beside.append(_hand_over(folder / "beside", small, 300, turn))
        rolling.terminate()
        rolling.join()
    ratio = statistics.median(beside) / statistics.median(alone)
    return [
        result("cost on a rank", "handing a record over", statistics.median(alone) * 1e6, "us"),
        result("cost on a rank", "the same while it is rolled up", ratio, "", target=1.25, note="processor time"),
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the steps, and fewer rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--sites", type=int, default=200)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=0, help="how often what varies is measured")
    arguments = parser.parse_args()
    steps = arguments.steps // 50 if arguments.quick else arguments.steps
    job = Job(arguments.ranks, arguments.sites, steps, arguments.seed, steps // 2)
    rounds = arguments.rounds or (2 if arguments.quick else 8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, a_step = writing(job, folder / "wide")
        rows += bounded(job, folder / "small", a_step)
        rows += page(folder / "wide", rounds)
        rows += visible(job, folder / "live", rounds)
        rows += a_rank(job, folder / "rank", rounds)
    if arguments.json:
        json.dump({"benchmark": "ranks_wide", "machine": machine(), "results": rows}, sys.stdout, indent=1)
        print()
        return
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row["ok"]]
        target = "" if row["target"] is None else f"target {row['target']:g}"
        print(f"{row['case']:<58} {row['metric']:<34} {row['value']:>12,.3f} {row['unit']:<9} {target:<12} {verdict}")
        if row.get("note"):
            print(f"{'':<59}{row['note']}")


if __name__ == "__main__":
    main()
