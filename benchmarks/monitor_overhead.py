"""What a monitor costs a training step: median ratio of monitored to plain steps, against hooks written by hand.

    python benchmarks/monitor_overhead.py [--json] [--quick] [--model NAME] [--framework NAME]

Every variant trains its own copy of the model. Blocks of steps take turns, shuffled in every round; a ratio is that of
a variant's block to the plain block of the same round. A monitored block ends when everything it recorded is in the
store: writer thread, SQLite and live diagnosis are paid for inside it.
"""

import argparse
import importlib
import importlib.util
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mindscope
import numpy as np
from environment import again_with_free_blas, machine
from mindscope.storage import open_store
from models import engine_model, torch_model
from threadpoolctl import threadpool_limits

EVERYTHING = {
    "every": 1,
    "histograms": {"every": 100, "subjects": ["activation", "activation_grad", "weight", "gradient"]},
}
TARGET_GPT = 1.25


@dataclass
class Variant:
    """One copy of the model and how to run it; `finish` ends a block, `close` the benchmark."""

    step: Callable[[], None]
    finish: Callable[[], object] = lambda: None
    close: Callable[[], object] = lambda: None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def row_by_hand(tensor: Any) -> Any:
    """The same statistics by torch's own reductions; its mean, deviation and norm go blind after one NaN."""
    import torch

    x = tensor.detach().float()
    deviation, mean = torch.std_mean(x, correction=0)
    low, high = torch.aminmax(x)
    counts = [(x == 0).sum(), x.isnan().sum(), x.isposinf().sum(), x.isneginf().sum()]
    return torch.stack([x.norm(), mean, deviation, low, high, *counts])


def by_hand(model: Any, optimizer: Any) -> Callable[[], None]:
    """Takes off hooks that compute the statistics with torch's own reductions and gather them once a step."""
    import torch

    parameters = list(model.parameters())
    rows: list[Any] = []
    kept: list[list[list[float]]] = []
    before: list[Any] = []

    def see(tensor: Any) -> None:
        rows.append(row_by_hand(tensor))

    def after_forward(_module: Any, _inputs: Any, output: Any) -> None:
        see(output)
        output.register_hook(see)

    def before_step(*_: Any) -> None:
        before[:] = [parameter.detach().clone() for parameter in parameters]
        for parameter in parameters:
            see(parameter.grad)

    def after_step(*_: Any) -> None:
        slots = [slot for parameter in parameters for slot in optimizer.state[parameter].values() if slot.dim()]
        changes = [now.detach() - old for now, old in zip(parameters, before, strict=True)]
        for tensor in (*parameters, *slots, *changes):
            see(tensor)
        ratios = [change.norm() / old.norm() for change, old in zip(changes, before, strict=True)]
        kept.append([*torch.stack(rows).tolist(), torch.stack(ratios).tolist()])
        rows.clear()
        del kept[:-64]

    handles = [module.register_forward_hook(after_forward) for module in model.modules()]
    handles += [optimizer.register_step_pre_hook(before_step), optimizer.register_step_post_hook(after_step)]

    def off() -> None:
        for handle in handles:
            handle.remove()

    return off


def variants(framework: str, name: str, folder: Path) -> dict[str, Variant]:
    """The copies that take turns."""
    build = torch_model if framework == "torch" else engine_model
    made: dict[str, Variant] = {}
    for label in ("plain", "plain again", "default", "everything", "by hand"):
        if label == "by hand" and framework != "torch":
            continue
        model, optimizer, step = build(name)
        variant = Variant(step)
        if label == "by hand":
            variant.close = by_hand(model, optimizer)
        elif not label.startswith("plain"):
            config = EVERYTHING if label == "everything" else None
            monitor = mindscope.watch(model, optimizer, store=open_store(folder), config=config)
            variant.finish, variant.close = monitor.flush, monitor.close
        made[label] = variant
    return made


def run(made: dict[str, Variant], seconds: float, rounds: int) -> int:
    """Steps in a block; fills the times of every variant. Hooks by hand run a quarter of them: they are slow."""
    for variant in made.values():
        timed(variant, 3)
    steps = max(4, round(seconds / timed(made["plain"], 4)[0]))
    order = random.Random(0)
    labels = list(made)
    for _ in range(rounds):
        order.shuffle(labels)
        for label in labels:
            wall, cpu = timed(made[label], max(2, steps // 4) if label == "by hand" else steps)
            made[label].wall.append(wall)
            made[label].cpu.append(cpu)
    return steps


def timed(variant: Variant, steps: int) -> tuple[float, float]:
    """Wall and processor seconds of one step, after one more that the previous block's traces are left to."""
    variant.step()
    variant.finish()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        variant.step()
    variant.finish()
    return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


def ratios(made: dict[str, Variant], label: str, clock: str) -> float:
    """Median over the rounds of the variant's time to that of the plain copy."""
    pairs = zip(getattr(made[label], clock), getattr(made["plain"], clock), strict=True)
    return statistics.median(one / plain for one, plain in pairs)


def results_of(case: str, made: dict[str, Variant], steps: int) -> list[dict[str, Any]]:
    """The rows of one model."""
    found: list[dict[str, Any]] = []
    for clock in ("wall", "cpu"):
        again = ratios(made, "plain again", clock)
        hand = {"hooks by hand": ratios(made, "by hand", clock)} if "by hand" in made else {}
        for label in ("default", "everything"):
            value = ratios(made, label, clock)
            target = TARGET_GPT if case.endswith("gpt") and label == "everything" else None
            is_met = (target is None or value <= target) and all(value < peer for peer in hand.values())
            row = {"case": f"{case} {label}", "metric": f"{clock}_ratio", "value": value, "unit": "monitored/plain"}
            found.append(row | {"limit": None, "peers": hand, "target": target, "ok": is_met})
        control = {"case": f"{case} A/A", "metric": f"{clock}_ratio", "value": again, "unit": "plain/plain"}
        found.append(control | {"limit": None, "peers": {}, "target": None, "ok": abs(again - 1) < 0.1})
    milliseconds = statistics.median(made["plain"].wall) * 1000
    size = {"case": case, "metric": "plain_step", "value": milliseconds, "unit": "ms", "limit": None, "peers": {}}
    return [*found, size | {"target": None, "ok": None, "steps_per_block": steps}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--model", choices=["mlp", "cnn", "gpt"], action="append")
    parser.add_argument("--framework", choices=["torch", "engine"], action="append")
    parser.add_argument("--threads", type=int, help="of torch and BLAS; 1 where others share the machine")
    options = parser.parse_args()
    if options.threads and importlib.util.find_spec("torch"):
        importlib.import_module("torch").set_num_threads(options.threads)
    threadpool_limits(options.threads, user_api="blas")  # until the process ends; None leaves it as it is
    seconds, rounds = (0.15, 5) if options.quick else (1.0, 15)
    results: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for framework in options.framework or ["torch", "engine"]:
        if framework == "torch" and importlib.util.find_spec("torch") is None:
            missing.append({"peer": "torch", "reason": "PyTorch is not installed"})
            continue
        for name in options.model or ["mlp", "cnn", "gpt"]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                made = variants(framework, name, Path(folder))
                steps = run(made, seconds, rounds)
                for variant in made.values():
                    variant.close()
                results += results_of(f"{framework} {name}", made, steps)
    results += again_with_free_blas()
    document = {
        "benchmark": "monitor_overhead",
        "machine": machine(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "numba": version("numba")}
        | ({"torch": version("torch")} if importlib.util.find_spec("torch") else {}),
        "results": results,
        "missing": missing,
    }
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        for row in results:
            peers = "".join(f"  {name} {value:.3f}" for name, value in row["peers"].items())
            verdict = "" if row["ok"] is None else "  ok" if row["ok"] else "  MISSED"
            print(f"{row['case']:24} {row['metric']:11} {row['value']:8.3f} {row['unit']}{peers}{verdict}")
    return 0 if all(row["ok"] is not False for row in results) else 1


if __name__ == "__main__":
    sys.exit(main())
