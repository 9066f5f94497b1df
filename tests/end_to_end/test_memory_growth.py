"""What the rule takes for the program's memory grows as that of the same training without a monitor."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from mindscope import open_store
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine

SCRIPT = """
import json, os, sys, time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
store, steps, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), *layers, nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
if store:
    import mindscope
    monitor = mindscope.watch(model, optimizer, store=store)
target, kept, resident = torch.randn(32, 4), [], []
for step in range(steps):
    inputs = torch.randn(32, 32)
    loss = nn.functional.mse_loss(model(inputs), inputs @ target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)  # the writer keeps up, on a busy computer as well
    if kind == "leak":
        kept.append(torch.ones(50_000))  # 0.2 MB
    if kind == "plot" and step == steps // 2:
        kept.append(torch.ones(10_000_000))  # 40 MB
    if step % 10 == 0:
        with open("/proc/self/statm") as file:
            resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
if store:
    monitor.close()
print(json.dumps(resident))
"""
MEGA = 2.0**20
#: The share of the monitor's growth that may stay with the program: 5 to 9 % on a computer that does nothing else, up
#: to 28 % on a busy one, where the writer lags behind and what it holds is counted late.
TOLERANCE = 1 / 3
#: The share by which the leak's slope may be told too large: 2 to 3 % as a rule, also on a busy computer, but up to
#: 17 % in a whole test run.
LEAK_TOLERANCE = 1 / 4
pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the system does not tell its memory"),
    pytest.mark.timeout(600),
]


def trained(store, steps, kind):
    """Resident bytes at every tenth step of the training in a process of its own."""
    code = [sys.executable, "-c", SCRIPT, str(store), str(steps), kind]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def seen(store):
    """Steps, and bytes of the process and of the monitor, as they are stored; the finding if there is one."""
    with open_store(store) as opened:
        run = opened.runs(limit=1)[0].id
        host, held = (opened.series(run, "", f"scalar/memory/{name}_bytes") for name in ("host", "monitor"))
        found = [finding for finding in opened.findings(run) if finding.rule == "memory-growth"]
    return host.steps, host.values, held.values, found


def first_step(resident):
    """The step at which the rule finds these bytes to grow."""
    series = tuple(value if at == 0 else None for value in resident for at in range(10))
    engine = Engine({"memory-growth": RULES["memory-growth"]})
    records = Recording({"scalar/memory/host_bytes": series}).records()
    return next(finding.step for record in records for finding in engine.observe(record))


def slope(steps, values):
    settled = steps >= 100
    return np.polyfit(steps[settled], values[settled], 1)[0]


def test_a_healthy_training_is_not_accused_of_what_the_monitor_holds(tmp_path):
    differences = []
    for attempt in range(3):
        store = tmp_path / str(attempt)
        trained(store, 400, "healthy")
        steps, host, held, found = seen(store)
        alone = slope(steps, np.array(trained("", 400, "healthy")[: len(steps)], float))
        assert not found
        grown = slope(steps, host) - alone
        assert grown > 10e3  # bytes a step: the monitor does grow
        differences.append(abs(slope(steps, host - held) - alone) / grown)
        if differences[-1] <= TOLERANCE:
            return
    pytest.fail(f"these shares of the monitor's growth stay with the program: {differences}")


def test_a_leak_is_found_as_soon_as_in_the_training_without_a_monitor(tmp_path):
    slopes = []
    for attempt in range(3):  # as above: what the monitor holds is counted late on a busy computer
        store = tmp_path / str(attempt)
        trained(store, 240, "leak")
        steps, host, held, (found, *_) = seen(store)
        resident = trained("", 240, "leak")
        assert found.step <= first_step(resident) + 30
        assert "less the" in found.explanation
        assert found.evidence["monitor_bytes"] > MEGA
        slopes.append((slope(steps, host - held), slope(steps, np.array(resident[: len(steps)], float))))
        if slopes[-1][0] == pytest.approx(slopes[-1][1], rel=LEAK_TOLERANCE):
            return
    pytest.fail(f"with and without the monitor, the program grows by these bytes a step: {slopes}")


def test_memory_that_is_taken_once_is_no_leak(tmp_path):
    trained(tmp_path, 200, "plot")
    _, host, held, found = seen(tmp_path)
    assert not found
    assert np.diff(host - held).max() > 35 * MEGA
