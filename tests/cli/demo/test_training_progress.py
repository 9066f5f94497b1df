import io

import pytest
from mindscope.cli.demo.training_progress import Throughput, reporting
from rich.console import Console


def test_throughput_is_items_over_the_time_between_steps() -> None:
    speed = Throughput(items=64)
    for now in (10.0, 10.5, 11.0):
        speed.tick(now)
    assert speed.per_second == pytest.approx(128.0)


def test_throughput_leaves_the_first_step_out() -> None:
    speed = Throughput(items=64)
    speed.tick(100.0)
    assert speed.per_second == 0.0


def test_without_a_terminal_a_line_now_and_then_tells_step_and_loss() -> None:
    out = io.StringIO()
    with reporting(Console(file=out, width=120), "digits", steps=50, items=64, unit="images") as report:
        for step in range(50):
            report.step(step, 1.0 / (step + 1))
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("digits: step 50/50, loss 0.0200, ")
    assert lines[-1].endswith(" images/s")


def test_on_a_terminal_a_bar_shows_step_and_loss() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None)
    with reporting(console, "digits", steps=5, items=64, unit="images") as report:
        for step in range(5):
            report.step(step, 0.5)
    assert "5/5" in out.getvalue()
    assert "loss 0.5000" in out.getvalue()
