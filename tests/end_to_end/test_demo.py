"""The demo as a user runs it: headless to the end, with pages while it trains, stopped by Ctrl-C."""

import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

from mindscope.storage import open_store


def test_the_headless_demo_trains_both_models_and_ends_with_their_verdicts(finish: Callable, tmp_path: Path) -> None:
    done = finish("demo", "--steps", 50, "--no-dashboard")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("no fault found") == 2  # in fifty steps it did not learn enough to be called healthy
    assert "step 50/50" in done.stdout
    with open_store(str(tmp_path / "runs")) as store:
        attacked, *trained = sorted(store.runs(), key=lambda run: run.kind)
        assert [(run.state, run.last_step, run.findings) for run in trained] == [("finished", 49, 0)] * 2
        for run in trained:
            loss = store.series(run.id, "", "scalar/loss").values
            assert loss[-10:].mean() < loss[:10].mean()
        assert attacked.parent in {run.id for run in trained}
        assert {outcome.attack for outcome in store.outcomes(attacked.id)} >= {"fgsm", "pgd"}


def test_a_faulty_demo_names_its_fault_and_still_ends_well(finish: Callable) -> None:
    done = finish("demo", "--fault", "nan-at-layer", "--model", "cnn", "--steps", 40, "--no-dashboard")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unhealthy" in done.stdout
    assert "found as injected: non_finite_activation" in done.stdout


def test_the_live_page_answers_while_the_demo_trains(start: Callable) -> None:
    child = start("demo", "--model", "cnn", "--steps", 100_000, "--port", 0)
    address = ""
    for line in child.stdout:
        address = address or "".join(re.findall(r"watch it live: (http://127\.0\.0\.1:\d+\S*)", line))
        if address and "step 1/" in line:
            break
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.status == 200
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130


def test_ctrl_c_ends_the_demo_cleanly_and_marks_the_run(start: Callable, tmp_path: Path) -> None:
    child = start("demo", "--model", "cnn", "--steps", 100_000, "--no-dashboard")
    for line in child.stdout:
        if "step 1/" in line:
            break
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "mindscope: stopped; everything recorded so far is in runs/\n"
    with open_store(str(tmp_path / "runs")) as store:
        (run,) = store.runs()
        assert run.state == "failed"
        assert "KeyboardInterrupt" in run.error
