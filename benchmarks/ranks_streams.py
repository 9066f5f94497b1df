"""Simulated ranks publish to a private NATS server while collectors die, the server restarts and the link is cut.

    python benchmarks/ranks_streams.py [--quick] [--json] [--ranks 200] [--kills 20] [--restarts 5] [--cuts 5]
    python benchmarks/ranks_streams.py --part connections [--ranks 1000]

Every record follows from its rank and step, so what is in the store at the end is compared with what was put: nothing
lost, nothing twice, in order. `connections` counts the connections to PostgreSQL while collectors store many ranks.
"""

import argparse
import json
import logging
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from mindscope.storage import (
    Block,
    Event,
    Finding,
    Layout,
    QueueWriter,
    StepRecord,
    StoreError,
    Structure,
    open_store,
)

from benchmarks.private_nats import PrivateNats, can_cut

RUN = "streams"
SITES = 40
LAYOUT = Layout(
    "gradient",
    tuple(f"layer.{n}" for n in range(SITES)),
    ("l2_norm", "mean", "zeros"),
    ("float32", "float64", "uint64"),
)
#: Steps between two findings of a rank.
FINDING_EVERY = 10


def record_of(rank: int, step: int, at: float = 0.0) -> StepRecord:
    """Return the record of a rank at a step, the same in every process."""
    generator = np.random.default_rng((rank, step))
    values = np.column_stack(
        (generator.random(SITES).astype(np.float32), generator.random(SITES), generator.integers(0, 1000, SITES))
    )
    event = Event("resumed", step, data={"rank": rank, "step": step})
    return StepRecord(step, at, blocks=(Block(LAYOUT, values),), scalars={"loss": rank + step / 7}, events=(event,))


class _Finder:
    """A listener that finds something at every tenth step, as rules do in the training's process."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def begin(self, run: object, structure: object) -> None:
        """Receive the run."""

    def observe(self, record: StepRecord) -> Sequence[Finding]:
        """Return the finding of this step, if it has one."""
        if record.step % FINDING_EVERY:
            return ()
        place = {"step": record.step, "first_step": record.step, "site": "layer.0", "metric": "gradient/l2_norm"}
        return (Finding("rule", "cause", "warning", evidence={}, explanation="", advice="", rank=self._rank, **place),)

    def end(self) -> Sequence[Finding]:
        """Return nothing more."""
        return ()


def send(url: str, ranks: range, pause_s: float) -> dict[str, Any]:
    """Record some ranks until stdin says stop; return how many steps each has, and what was lost."""
    logging.getLogger("mindscope").setLevel(logging.CRITICAL)  # findings, and that the store is away
    writers = []
    with open_store(url) as store:
        for rank in ranks:
            writer = QueueWriter(store.begin_run(RUN, rank=rank, run_id=RUN), [_Finder(rank)])
            writer.put_structure(Structure(subjects=("gradient",)))
            writers.append(writer)
        print("ready", flush=True)
        stop = _when_told()
        steps = 0
        while not stop():
            began = time.monotonic()
            for rank, writer in zip(ranks, writers, strict=True):
                writer.put(record_of(rank, steps, time.time()))
            steps += 1
            time.sleep(max(pause_s - (time.monotonic() - began), 0.0))
        for writer in writers:
            writer.flush()
        time.sleep(8.0)  # what waits in the backlogs is delivered when it is next asked for
        whole = [writer.close() for writer in writers]
    return {"steps": steps, "lost": sum(writer.lost for writer in writers), "closed": all(whole)}


def _when_told() -> Any:
    import threading

    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    return told.is_set


@dataclass(frozen=True)
class Plan:
    """What is done to the collectors and the server while ranks publish."""

    ranks: int = 200
    kills: int = 20
    restarts: int = 5
    cuts: int = 5
    cut_s: float = 6.0
    collectors: int = 3
    senders: int = 4
    pause_s: float = 1.0
    calm_s: float = 6.0
    seed: int = 0


QUICK = Plan(ranks=8, kills=3, restarts=1, cuts=1, cut_s=3.0, collectors=2, senders=1, pause_s=0.1, calm_s=2.0)


class Collectors:
    """Some `mindscope collect` processes, of which one after the other is killed and replaced."""

    def __init__(self, source: str, target: str, count: int, log: Path) -> None:
        self._command = [sys.executable, "-m", "mindscope", "collect", "--from", source, "--store", target]
        self._log = log.open("ab")
        self._processes = [self._start() for _ in range(count)]

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdout=self._log, stderr=self._log)

    def kill(self, at: int) -> None:
        """Kill one, and start another in its place."""
        self._processes[at].kill()
        self._processes[at].wait()
        self._processes[at] = self._start()

    def stop(self) -> None:
        """Let each end what it has in hand."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=60)
        self._log.close()

    def drain(self) -> dict[str, Any]:
        """Collect what is left; return what this collector counted."""
        done = subprocess.run([*self._command, "--until-empty", "--json"], check=True, capture_output=True, timeout=900)
        counted: dict[str, Any] = json.loads(done.stdout)
        return counted

    def __len__(self) -> int:
        return len(self._processes)


@contextmanager
def _senders(plan: Plan, url: str) -> Iterator[list["subprocess.Popen[str]"]]:
    each = -(-plan.ranks // plan.senders)
    shares = [range(low, min(low + each, plan.ranks)) for low in range(0, plan.ranks, each)]
    command = [sys.executable, __file__, "--send", url, "--pause", str(plan.pause_s), "--share"]
    started = [
        subprocess.Popen(
            [*command, f"{share.start}-{share.stop}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for share in shares
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _disturb(plan: Plan, server: PrivateNats, collectors: Collectors) -> None:
    """Do what is planned, in random order."""
    generator = random.Random(plan.seed)
    deeds = ["kill"] * plan.kills + ["restart"] * plan.restarts + ["cut"] * plan.cuts
    generator.shuffle(deeds)
    for deed in deeds:
        time.sleep(generator.uniform(0.5, 3.0))
        if deed == "kill":
            collectors.kill(generator.randrange(len(collectors)))
        elif deed == "restart":
            server.crash()
            time.sleep(generator.uniform(0.2, 2.0))
            server.start()
        else:
            server.cut(plan.cut_s)


def _lags(place: str, seconds: float) -> list[float]:
    """Return how old the newest stored record of rank 0 is, in seconds, looked at again and again while all is well."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(StoreError), open_store(_place_of(place, 0)) as store:
            times = store.series(RUN, "", "scalar/loss", limit=10**6).times
            found += [time.time() - float(times[-1])] if len(times) else []
        time.sleep(0.1)
    return found


def compare(place: str, steps: dict[int, int]) -> dict[str, Any]:
    """Compare what is stored of each rank with what was put.

    Args:
        steps: How many steps each rank has put.
    """
    wrong: list[str] = []
    counted = dict.fromkeys(("missing", "twice", "disordered", "different"), 0)
    for rank, count in steps.items():
        with open_store(_place_of(place, rank)) as store:
            found = list(store.replay(RUN, rank=rank))
            events = store.events(RUN, rank=rank, kind="resumed", limit=10**6)
            findings = [one for one in store.findings(RUN, limit=10**6) if (one.rule, one.rank) == ("rule", rank)]
            run = store.find_run(RUN)
            wrong += store.verify(RUN) if "://" not in place or not rank else ()
        at = [record.step for record in found]
        counted["missing"] += len(set(range(count)) - set(at))
        counted["twice"] += len(at) - len(set(at))
        counted["disordered"] += sum(after <= before for before, after in pairwise(at))
        for record in found:
            expected = record_of(rank, record.step)
            same = np.array_equal(record.blocks[0].values, expected.blocks[0].values)
            counted["different"] += not (same and record.scalars == expected.scalars)
        if [event.data["step"] for event in events] != list(range(count)):
            wrong.append(f"rank {rank} has {len(events)} events, expected {count}")
        if len(findings) != -(-count // FINDING_EVERY):
            wrong.append(f"rank {rank} has {len(findings)} findings, expected {-(-count // FINDING_EVERY)}")
        if run.state != "finished":
            wrong.append(f"rank {rank} of the run is {run.state}: {run.error}")
    return {"records": sum(steps.values()), **counted, "wrong": wrong}


def _place_of(place: str, rank: int) -> str:
    """Return the file of a rank: a folder opens the files of all of them."""
    return place if "://" in place else f"{place}/{RUN}.rank{rank}.db"


def disturbed(plan: Plan, target: str | None = None) -> dict[str, Any]:
    """Run the campaign; return what was measured."""
    began = time.monotonic()
    with ExitStack() as stack:
        is_apart = can_cut()
        server = stack.enter_context(PrivateNats(is_apart=is_apart))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mindscope-streams-")))
        place = target or str(folder / "runs")
        collectors = Collectors(server.url(), place, plan.collectors, folder / "log")
        senders = stack.enter_context(_senders(plan, server.url()))
        for process in senders:
            assert process.stdout is not None
            process.stdout.readline()
        try:
            time.sleep(min(plan.calm_s, 3.0))
            lags = _lags(place, plan.calm_s)
            _disturb(plan, server, collectors)
            told = [json.loads(process.communicate("stop\n", timeout=120)[0].splitlines()[-1]) for process in senders]
        finally:
            collectors.stop()
        rest = collectors.drain()
        log = (folder / "log").read_text()
        each = -(-plan.ranks // plan.senders)
        steps = {rank: told[rank // each]["steps"] for rank in range(plan.ranks)}
        found = compare(place, steps)
    return {
        "plan": asdict(plan),
        "cut": "network namespace" if is_apart else "frozen server",
        **found,
        "lost_at_senders": sum(one["lost"] for one in told),
        "collected_at_the_end": rest["records"],
        "lag_s": {"median": float(np.median(lags)), "most": max(lags)} if lags else None,
        "errors_logged": log.count("ERROR"),
        "seconds": time.monotonic() - began,
    }


def connections(ranks: int, collectors: int = 4, steps: int = 2) -> dict[str, Any]:
    """Store many ranks in a private PostgreSQL through collectors; return how many connections it had at most."""
    import psycopg

    from benchmarks.private_postgres import PrivateServer

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with PrivateServer() as database, PrivateNats() as server, tempfile.TemporaryDirectory() as folder:
        drains = Collectors(server.url(), database.url, collectors, Path(folder) / "log")
        most = 0
        try:
            with open_store(server.url()) as store, psycopg.connect(database.url.replace("+psycopg", "")) as watching:
                writers = [store.begin_run(RUN, rank=rank, run_id=RUN) for rank in range(ranks)]
                for step in range(steps):
                    for rank, writer in enumerate(writers):
                        writer.write([record_of(rank, step, time.time())])
                        if not rank % 20:
                            most = max(most, _connections(watching))
                for rank, writer in enumerate(writers):
                    writer.close()
                    most = max(most, _connections(watching)) if not rank % 20 else most
        finally:
            drains.stop()
        rest = drains.drain()
        with open_store(database.url) as reading:
            stored = {rank: [record.step for record in reading.replay(RUN, rank=rank)] for rank in range(ranks)}
    whole = sum(at == list(range(steps)) for at in stored.values())
    return {
        "ranks": ranks,
        "collectors": collectors,
        "most_connections": most,
        "whole": whole,
        "collected_at_the_end": rest["records"],
    }


def _connections(watching: Any) -> int:
    query = "select count(*) from pg_stat_activity where datname = 'test' and pid <> pg_backend_pid()"
    found = int(watching.execute(query).fetchone()[0])
    watching.rollback()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("disturbed", "connections"), default="disturbed")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    for name in ("ranks", "kills", "restarts", "cuts", "collectors", "senders", "seed"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--store", help="the store that is filled; a folder of its own by default")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--share", help=argparse.SUPPRESS)
    parser.add_argument("--pause", type=float, default=0.5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        low, high = map(int, given.share.split("-"))
        print(json.dumps(send(given.send, range(low, high), given.pause)), flush=True)
        return
    start = QUICK if given.quick else Plan()
    chosen = {name: value for name, value in vars(given).items() if name in asdict(start) and value is not None}
    plan = Plan(**{**asdict(start), **chosen})
    if given.part == "connections":
        found = connections(given.ranks or (50 if given.quick else 1000))
    else:
        found = disturbed(plan, given.store)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:>22}  {value}")


if __name__ == "__main__":
    main()
