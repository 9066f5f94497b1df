"""The engine's training step against PyTorch eager: ratio of processor time, with JAX and torch.compile as peers.

    python benchmarks/engine.py [--json] [--quick] [--threads N] [--workload NAME]

A step is forward, backward and AdamW. Blocks of steps take turns in one process; a ratio is that of the fastest blocks,
since whatever else runs on the machine only ever adds time. The same again in a child whose BLAS may choose its
kernels. Further children measure what a process can measure once: peak memory, first calls without and with the cache
on disk, all threads against one, the import.
"""

import argparse
import importlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from environment import FORCED, again_with_free_blas, machine
from threadpoolctl import threadpool_limits
from workloads import NAMES, TITLES, Step, engine_step, jax_step, torch_step

#: Ratio to PyTorch eager at one thread: compiled as the environment is and with BLAS free, and eager.
TARGETS = {
    "mlp": (0.70, 0.45, 1.3),
    "cnn": (1.2, 0.85, 1.6),
    "gpt": (0.80, 0.50, 1.1),
    "tiny": (0.18, 0.17, 0.5),
}


@dataclass
class Variant:
    """One way to run a workload, and the seconds a step took in each block."""

    step: Step
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Processor seconds of a step in the fastest block."""
        return min(self.cpu)


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def variants(name: str, missing: dict[str, str]) -> dict[str, Variant]:
    """The ways that run here; the others are named in `missing`."""
    builders: dict[str, Callable[[], Step]] = {
        "compiled": lambda: engine_step(name, compiled=True),
        "eager": lambda: engine_step(name),
    }
    if has("torch"):
        builders |= {"torch": lambda: torch_step(name), "torch again": lambda: torch_step(name)}
        builders["torch.compile"] = lambda: torch_step(name, compiled=True)
    else:
        missing["torch"] = "PyTorch is not installed"
    if has("jax"):
        builders["jax jit"] = lambda: jax_step(name)
    else:
        missing["jax jit"] = "JAX is not installed; pip install mindscope[xla]"
    if not has("mindspore"):
        missing["mindspore"] = "MindSpore is not installed; pip install mindscope[mindspore]"
    made = {}
    for label, build in builders.items():
        if label in missing:
            continue
        try:
            step = build()
            step()
        except Exception as error:
            if label in ("compiled", "eager"):
                raise
            missing[label] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            continue
        made[label] = Variant(step)
    return made


def run(made: dict[str, Variant], seconds: float, rounds: int) -> None:
    """Fills the times; every block of every variant lasts about as long."""
    steps = {}
    for label, variant in made.items():
        variant.step()
        start = time.perf_counter()
        variant.step()
        steps[label] = max(1, round(seconds / max(1e-6, time.perf_counter() - start)))
    for _ in range(rounds):
        for label, variant in made.items():
            variant.step()  # after the previous block's traces in the caches
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(steps[label]):
                variant.step()
            variant.wall.append((time.perf_counter() - wall) / steps[label])
            variant.cpu.append((time.process_time() - cpu) / steps[label])


def results_of(name: str, made: dict[str, Variant]) -> list[dict[str, Any]]:
    """The rows of one workload."""
    is_free = FORCED not in os.environ
    as_is, free, of_eager = TARGETS[name]
    base = made["torch"].best if "torch" in made else made["eager"].best
    peers = {label: v.best / base for label, v in made.items() if label in ("jax jit", "torch.compile")}
    rows: list[dict[str, Any]] = []
    for label, target in (("compiled", free if is_free else as_is), ("eager", of_eager)):
        value = made[label].best / base
        row = {"case": f"{TITLES[name]} {label}", "metric": "cpu_ratio", "value": value, "unit": "engine/torch eager"}
        rows.append(row | {"limit": None, "peers": peers, "target": target, "ok": value <= target})
    if "torch again" in made:
        again = made["torch again"].best / base
        row = {"case": f"{TITLES[name]} A/A", "metric": "cpu_ratio", "value": again, "unit": "torch/torch"}
        rows.append(row | {"limit": None, "peers": {}, "target": None, "ok": abs(again - 1) < 0.1})
    size = {"case": TITLES[name], "metric": "torch_step", "value": base * 1000, "unit": "ms", "limit": None}
    return [*rows, size | {"peers": {}, "target": None, "ok": None}]


# What only a process of its own can measure: `python benchmarks/engine.py --probe WORD`.


def probe_first_call() -> dict[str, float]:
    """Seconds from the first call of the compiled GPT step to its end, everything imported."""
    engine_step("tiny", compiled=True)()
    step = engine_step("gpt", compiled=True)
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    start = time.perf_counter()
    step()
    return {"seconds": first - (time.perf_counter() - start)}


def _memory(field_name: str) -> float:
    with open("/proc/self/status", encoding="utf-8") as file:
        kib = next(line.split()[1] for line in file if line.startswith(field_name))
    return int(kib) / 1024


def _peak_of(build: Callable[[str], Step]) -> dict[str, float]:
    """MiB by which steps of the GPT raise the process above what it is after another workload has run in it."""
    warm = build("mlp")
    warm()
    warm()
    before = _memory("VmRSS")
    step = build("gpt")
    step()
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # the peak starts anew: what compiling took is not part of the step
    for _ in range(4):
        step()
    return {"mebibytes": _memory("VmHWM") - before}


def probe_threads() -> dict[str, float]:
    """Wall seconds of the compiled steps of decoder and CNN, with as many threads as the child was given."""
    found = {}
    for name in ("gpt", "cnn"):
        step = engine_step(name, compiled=True)
        made = {name: Variant(step)}
        step()
        run(made, 0.5, 5)
        found[name] = min(made[name].wall)
    return found


PROBES: dict[str, Callable[[], dict[str, float]]] = {
    "first-call": probe_first_call,
    "memory-engine": lambda: _peak_of(lambda name: engine_step(name, compiled=True)),
    "memory-torch": lambda: _peak_of(torch_step),
    "threads": probe_threads,
}


def child(probe: str, threads: int = 1, **environment: str) -> dict[str, float]:
    """What a probe finds in a fresh process."""
    counts = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, __file__, "--probe", probe, "--threads", str(threads)]
    done = subprocess.run(command, env=os.environ | counts | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"probe '{probe}' failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def import_seconds() -> float:
    """Of `mindscope.framework`, the fastest of five fresh interpreters."""
    code = "import time; t = time.perf_counter(); import mindscope.framework; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(done.stdout) for done in runs)


def once_results() -> list[dict[str, Any]]:
    """The rows of the children."""
    rows = []

    def add(case: str, metric: str, value: float, unit: str, target: float | None, **peers: float) -> None:
        row = {"case": case, "metric": metric, "value": value, "unit": unit, "limit": None, "peers": peers}
        rows.append(row | {"target": target, "ok": None if target is None else value <= target})

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        title = f"{TITLES['gpt']} compiled"
        add(title, "compile", child("first-call", MINDSCOPE_CACHE=folder)["seconds"], "s", 5.0)
        add(title, "warm_start", child("first-call", MINDSCOPE_CACHE=folder)["seconds"], "s", 0.5)
    ours = child("memory-engine")["mebibytes"]
    if has("torch"):
        theirs = child("memory-torch")["mebibytes"]
        add(title, "peak_memory", ours / theirs, "engine/torch eager", 1.0, torch_mebibytes=theirs)
    else:
        add(title, "peak_memory", ours, "MiB", None)
    cores = os.cpu_count() or 1
    one, every = child("threads"), child("threads", cores)
    add(title, f"wall_{cores}_threads", every["gpt"] / one["gpt"], "all threads/one", 0.7)
    add(f"{TITLES['cnn']} compiled", f"wall_{cores}_threads", every["cnn"] / one["cnn"], "all threads/one", 1.0)
    add("import mindscope.framework", "import", import_seconds(), "s", 0.3)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workload", choices=NAMES, action="append")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS, torch and the engine")
    parser.add_argument("--probe", choices=PROBES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if has("torch") and options.probe in (None, "memory-torch"):
        importlib.import_module("torch").set_num_threads(options.threads)
    threadpool_limits(options.threads, user_api="blas")
    if options.probe:
        print(json.dumps(PROBES[options.probe]()))
        return 0
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={'true' if options.threads > 1 else 'false'}")
    seconds, rounds = (0.1, 5) if options.quick else (0.4, 12)
    results: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for name in options.workload or NAMES:
        made = variants(name, missing)
        run(made, seconds, rounds)
        results += results_of(name, made)
    results += again_with_free_blas()
    if FORCED in os.environ or "--json" not in sys.argv:  # once, not again in the child
        results += once_results()
    document = {
        "benchmark": "engine",
        "machine": machine(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "numba": version("numba")}
        | {peer: version(peer) for peer in ("torch", "jax", "mindspore") if has(peer)},
        "results": results,
        "missing": [{"peer": peer, "reason": reason} for peer, reason in missing.items()],
    }
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        for row in results:
            peers = "".join(f"  {name} {value:.3f}" for name, value in row["peers"].items())
            verdict = "" if row["ok"] is None else "  ok" if row["ok"] else "  MISSED"
            print(f"{row['case']:40} {row['metric']:15} {row['value']:8.3f} {row['unit']}{peers}{verdict}")
        for entry in document["missing"]:
            print(f"missing: {entry['peer']} ({entry['reason']})")
    return 0 if all(row["ok"] is not False for row in results) else 1


if __name__ == "__main__":
    sys.exit(main())
