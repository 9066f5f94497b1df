"""What the live diagnosis costs per step on the writer's thread, in processor time, by number of sites.

Records come in bursts, as the monitor hands over those of fast steps; a burst of one is that of slow ones.
The peer is one NumPy pass over the same blocks (a sum of every column): the least that any look at the data costs.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from environment import machine
from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.storage import Block, Layout, ModuleInfo, OptimizerInfo, ParameterInfo, StepRecord, Structure

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
SUBJECTS = (
    "activation",
    "activation_grad",
    "weight",
    "gradient",
    "optimizer/exp_avg",
    "optimizer/exp_avg_sq",
    "update",
)
TARGET_MS = 0.3
#: Records that are handed over together where steps are fast.
BURST = 32


def structure(sites: int) -> Structure:
    names = [f"block.{at}.fc" for at in range(sites)]
    return Structure(
        tuple(ModuleInfo(name, "Dense", at, (names[at - 1],) if at else ()) for at, name in enumerate(names)),
        tuple(ParameterInfo(f"{name}.weight", (64, 64), "float32", True, (0, 0), at) for at, name in enumerate(names)),
        (OptimizerInfo("AdamW", ({"lr": 1e-3},)),),
    )


def records(sites: int, steps: int) -> list[StepRecord]:
    random = np.random.default_rng(0)
    layouts = []
    for subject in SUBJECTS:
        suffix = "" if subject.startswith("activation") else ".weight"
        names = (*STATISTICS, "ratio_to_weight") if subject == "update" else STATISTICS
        dtypes = tuple("uint64" if name in STATISTICS[5:] else "float32" for name in names)
        layouts.append(Layout(subject, tuple(f"block.{at}.fc{suffix}" for at in range(sites)), names, dtypes))
    return [
        StepRecord(
            step,
            float(step),
            blocks=tuple(_block(layout, random) for layout in layouts),
            scalars={"loss": 2.0 - 1e-3 * step + 0.01 * random.normal(), "learning_rate": 1e-3, "step_seconds": 0.1},
        )
        for step in range(steps)
    ]


def _block(layout: Layout, random: np.random.Generator) -> Block:
    values = np.abs(random.normal(1.0, 0.1, (len(layout.sites), len(layout.statistics))))
    values[:, 5:9], values[:, 9], values[:, 10:] = 0.0, 4096.0, 1e-3
    return Block(layout, values)


def _pass(few: Sequence[StepRecord]) -> None:
    for record in few:
        for block in record.blocks:
            block.values.sum(axis=0)


def _diagnose(engine: Engine, few: Sequence[StepRecord]) -> None:
    engine.foresee(few)
    for record in few:
        engine.observe(record)


def measure(sites: int, steps: int, burst: int) -> list[dict[str, object]]:
    written = records(sites, steps)
    engines = [Engine(RULES), Engine(RULES)]
    for engine in engines:
        engine.learn_structure(structure(sites))
    times: dict[str, list[float]] = {"rules": [], "control": [], "pass": []}
    works = {"rules": partial(_diagnose, engines[0]), "pass": _pass, "control": partial(_diagnose, engines[1])}
    for begin in range(0, steps, burst):  # interleaved burst by burst, so that the machine's mood meets all alike
        few = written[begin : begin + burst]
        for name, work in works.items():
            began = time.thread_time()
            work(few)
            times[name].append((time.thread_time() - began) / len(few))
    assert not engines[0].findings, "the benchmark's history must be healthy"
    cost, control, floor = (float(np.median(times[name])) for name in ("rules", "control", "pass"))
    case = f"{sites} sites x {len(SUBJECTS)} subjects, {'one by one' if burst == 1 else f'bursts of {burst}'}"
    is_judged = sites == 200
    target = TARGET_MS if is_judged else None
    return [
        {
            "case": case,
            "metric": "step",
            "value": cost * 1e3,
            "unit": "ms",
            "limit": None,
            "peers": {"one pass over the blocks": floor * 1e3},
            "target": target,
            "ok": cost * 1e3 <= TARGET_MS if is_judged else None,
        },
        {
            "case": case,
            "metric": "A/A control",
            "value": control / cost,
            "unit": "ratio",
            "limit": None,
            "peers": {},
            "target": None,
            "ok": None,
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    steps = 320 if options.quick else 3200
    cases = [(50, BURST), (200, BURST), (200, 1), (1000, BURST)]
    results = [row for sites, burst in cases for row in measure(sites, steps, burst)]
    if options.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        document = {"benchmark": "diagnosis", "machine": machine(), "versions": versions, "results": results}
        json.dump(document, sys.stdout, indent=2)
        return
    for row in results:
        print(f"{row['case']:>46}  {row['metric']:<12} {row['value']:8.3f} {row['unit']}")


if __name__ == "__main__":
    main()
