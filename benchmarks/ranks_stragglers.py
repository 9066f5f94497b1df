"""Who drags, and what it costs: simulated jobs with a fault of known cost, healthy ones, and real jobs over gloo.

    python benchmarks/ranks_stragglers.py [--json] [--quick] [--seed N] [--hta PYTHON] [TRACE...]

Every job is written as traces of torch.profiler's form and read again. A verdict is right if it names one of the
answers that `traced_jobs.py` has for the fault. The cost is compared with the difference between the job and the same
job without its fault. No threshold was chosen on simulated jobs of the benchmark: one of each fault with eight ranks
and seed 3 was looked at. Of the real ones, healthy jobs on a crowded machine were.
"""

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from environment import machine
from mindscope.insight.stragglers import StragglerReport, stragglers, trace_graph
from mindscope.insight.traces import queue_lengths, read_traces, stream_idle, time_breakdown
from rows import at_least, at_most
from traced_gloo import REAL_FAULTS, run_job
from traced_jobs import FAULTS, Job, true_cost_s, write_traces

_RIGHT, _FALSE, _ERROR = 0.85, 0.0, 0.15
_READ_S: Final = 5.0
_HTA: Final = Path(__file__).parent / "hta_breakdown.py"


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one job of each fault, one real job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hta", metavar="PYTHON", help="a Python in which Holistic Trace Analysis is installed")
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="traces on which it is compared, too")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = [
        *_simulated(options.seed, is_quick=options.quick),
        *_real(is_quick=options.quick),
        *_reading(is_quick=options.quick),
        *(_peers(options.hta, options.traces, options.seed) if options.hta else ()),
    ]
    if options.json:
        versions = {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "torch")}}
        found = {"benchmark": "ranks_stragglers", "machine": machine(), "versions": versions, "results": rows}
        if not options.hta:
            found["missing"] = {"HolisticTraceAnalysis": "no Python with it was named (--hta)"}
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(f"{row['case']:<34} {row['metric']:<34} {row['value']:>10} {row['unit']:<20} target {row['target']}")


def _peers(python: str, traces: list[str], seed: int) -> Iterator[dict[str, Any]]:
    """Compare with Holistic Trace Analysis on a simulated trace and on these."""
    with tempfile.TemporaryDirectory() as folder:
        made = write_traces(Job("slow rank", ranks=1, per_host=1, seed=seed), Path(folder))
        for path in (*made, *map(Path, traces)):
            theirs = json.loads(subprocess.run([python, _HTA, path.absolute()], capture_output=True, check=True).stdout)
            (trace,) = read_traces([path]).ranks
            split = time_breakdown(trace)
            ours = {
                "idle": split.idle_s * 1e6,
                "computing": split.compute_s * 1e6,
                "neither": (split.communication_s + split.memory_s) * 1e6,
                "overlap": split.overlap * 100.0,
                "host wait": sum(stream.host_s for stream in stream_idle(trace)) * 1e6,
                "longest queue": float(max(queue.most for queue in queue_lengths(trace))),
            }
            for name, value in ours.items():
                if not np.isfinite(value):  # the share of communication that is hidden, where there is none
                    continue
                unit = "%" if name == "overlap" else "kernels" if name == "longest queue" else "us"
                yield at_least(None, path.name, name, value, unit, {"HTA": theirs[name]})


def jobs(seed: int, *, is_quick: bool) -> Iterator[Job]:
    """Yield jobs of every fault that differ in ranks, machines, noise and strength; a third are healthy."""
    draw = np.random.default_rng([seed, 24])
    for fault in FAULTS:
        count = 1 if is_quick else 24 if fault == "healthy" else 4
        for number in range(count):
            stages = 4 if fault == "slow stage" else 1
            ranks = int(draw.choice([8, 12])) if stages > 1 else int(draw.choice([4, 6, 8, 12]))
            per_host = ranks // 2 if fault == "slow machine" else int(draw.choice([2, ranks // 2, ranks]))
            most = {"slow stage": stages, "slow machine": ranks // per_host}.get(fault, ranks)
            yield Job(
                fault=fault,
                target=int(draw.integers(most)),
                strength=float(draw.uniform(0.6, 1.5)),
                ranks=ranks,
                per_host=per_host,
                stages=stages if fault != "healthy" or number % 3 else 4 if ranks % 4 == 0 else 1,
                steps=int(draw.choice([12, 20, 30])),
                has_device=stages > 1 or bool(number % 2) or (fault == "healthy" and not number % 3),
                noise=float(draw.choice([0.01, 0.02, 0.04])),
                seed=int(draw.integers(2**31)),
            )


def judge(job: Job) -> tuple[StragglerReport, bool, float, float]:
    """Return the verdict on the job, whether it is right, and the cost that it says and the true one, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        write_traces(job, Path(folder))
        report = stragglers(trace_graph(read_traces([folder])))
    _, true_s = true_cost_s(job)
    culprit = report.culprit
    is_right = (culprit is None) == (not job.answers) and (
        culprit is None or (culprit.kind, culprit.name) in job.answers
    )
    return report, is_right, 0.0 if culprit is None else culprit.cost_s, true_s


def _simulated(seed: int, *, is_quick: bool) -> Iterator[dict[str, Any]]:
    found: dict[str, list[tuple[bool, float, float, float]]] = {fault: [] for fault in FAULTS}
    for job in jobs(seed, is_quick=is_quick):
        report, is_right, told_s, true_s = judge(job)
        found[job.fault].append((is_right, told_s, true_s, report.step_s))
        if not is_right:
            print(f"# {job}: {report.headline}", file=sys.stderr, flush=True)
    faulty = [row for fault, rows in found.items() if fault != "healthy" for row in rows]
    healthy = found["healthy"]
    errors = [abs(told - true) / true for is_right, told, true, _ in faulty if is_right]
    yield at_least(
        _RIGHT,
        f"{len(faulty)} simulated faults",
        "culprit is right",
        sum(row[0] for row in faulty) / len(faulty),
        "share",
    )
    yield at_most(
        _FALSE, f"{len(healthy)} simulated healthy jobs", "accusations", sum(not row[0] for row in healthy), "jobs"
    )
    yield at_most(_ERROR, "culprits that are right", "error of the cost, median", median(errors), "of the true cost")
    yield at_most(
        None, "culprits that are right", "error of the cost, 90 %", float(np.percentile(errors, 90)), "of the true cost"
    )
    for fault, rows in found.items():
        yield at_least(None, fault, f"right of {len(rows)}", sum(row[0] for row in rows), "jobs")
        costs = [abs(told - true) / true for is_right, told, true, _ in rows if is_right and true > 0.0]
        if costs:
            yield at_most(None, fault, "error of the cost, median", median(costs), "of the true cost")


def _real(*, is_quick: bool) -> Iterator[dict[str, Any]]:
    cases = [("sleep", 2)] if is_quick else [(fault, ranks) for fault in REAL_FAULTS for ranks in (2, 3)]
    right = []
    for fault, ranks in cases:
        with tempfile.TemporaryDirectory() as folder:
            injected_s = run_job(fault, ranks, Path(folder))
            report = stragglers(trace_graph(read_traces([folder])))
        culprit, answers = report.culprit, REAL_FAULTS[fault]
        is_right = (culprit is None) == (not answers) and (culprit is None or (culprit.kind, culprit.name) in answers)
        right.append(is_right)
        case = f"gloo, {ranks} ranks, {fault}"
        yield at_least(1.0, case, "culprit is right", float(is_right), "job")
        if injected_s > 0.0:
            told_s = culprit.cost_s if culprit is not None else 0.0
            yield at_most(None, case, "cost over what was injected", told_s / injected_s, "ratio")
        else:
            yield at_most(None, case, "cost of the worst rank", max(rank.of_step for rank in report.ranks), "of a step")
    yield at_least(_RIGHT, f"{len(right)} real jobs over gloo", "culprit is right", sum(right) / len(right), "share")


def _reading(*, is_quick: bool) -> Iterator[dict[str, Any]]:
    """Measure how fast a large trace is read and reported: one rank's, of 100 MB."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write_traces(
            Job("healthy", ranks=1, layers=400, steps=30 if is_quick else 90, per_host=1), Path(folder)
        )
        document = json.loads(path.read_text())
        for event in document["traceEvents"]:
            if event["cat"] == "kernel":
                event["args"] |= {
                    "grid": [1, 1, 1],
                    "block": [256, 1, 1],
                    "registers per thread": 32,
                    "context": 1,
                    "queued": 0,
                }
        text = json.dumps(document, indent=2)
        path.write_text(text)
        begun = time.process_time()
        job = read_traces([path])
        took = time.process_time() - begun
        begun = time.process_time()
        trace_graph(job)
        built = time.process_time() - begun
        size = len(text) / 1e6
        path.unlink()
        packed = Path(folder, "rank0.json.gz")
        packed.write_bytes(gzip.compress(text.encode(), 1))
        begun = time.process_time()
        read_traces([packed])
        unpacked = time.process_time() - begun
    yield at_most(_READ_S, f"a trace of {size:.0f} MB", "read", took * 100.0 / size, "s of processor for 100 MB")
    yield at_most(
        _READ_S, f"a trace of {size:.0f} MB, gzip", "read", unpacked * 100.0 / size, "s of processor for 100 MB"
    )
    yield at_most(_READ_S, f"a trace of {size:.0f} MB", "graph", built * 100.0 / size, "s of processor for 100 MB")


if __name__ == "__main__":
    main()
