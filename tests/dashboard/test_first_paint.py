"""The loss of a run as the server draws it before any script is there."""

import math
import re
import subprocess
import sys

import pytest
from mindscope.dashboard.first_paint import loss_html
from mindscope.storage import StepRecord, open_store

from .recorded import Plan, write_run


def _of(losses, name="run"):
    with open_store("memory:") as store:
        writer = store.begin_run(name)
        writer.write([StepRecord(step, float(step), scalars={"loss": loss}) for step, loss in enumerate(losses)])
        writer.close()
        return loss_html(store, store.find_run("latest"))


def _points(html):
    path = re.search(r'<path d="([^"]*)"', html)[1]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_every_loss_stands_at_its_height():
    assert _points(_of([3.0, 1.0, 2.0])) == [(0.0, 16.0), (500.0, 200.0), (1000.0, 108.0)]


def test_a_spike_of_one_step_in_ten_thousand_is_drawn():
    losses = [1.0] * 10_000
    losses[4321] = 50.0
    assert min(y for _, y in _points(_of(losses))) == 16.0


def test_what_is_not_finite_breaks_the_line_and_is_marked():
    html = _of([1.0, math.nan, 2.0, math.inf])
    assert '<path d="M0.0 200.0M666.7 16.0"/>' in html
    assert '<path class="bad" d="M333.3 0v8M1000.0 0v8"/>' in html


def test_the_first_finding_is_marked():
    with open_store("memory:") as store:
        run = write_run(store, plan=Plan(steps=200))
        html, first = loss_html(store, run), min(one.first_step for one in store.findings(run.id))
    assert f'class="since" d="M{1000 * first / 199:.1f} 0' in html


@pytest.mark.parametrize("losses", [[], [math.nan, math.nan]], ids=["empty", "never-finite"])
def test_a_run_without_a_finite_loss_has_none(losses):
    assert _of(losses) is None


def test_one_step_and_a_constant_loss_can_be_drawn():
    assert _points(_of([2.0])) == [(0.0, 200.0)]
    assert {y for _, y in _points(_of([2.0, 2.0, 2.0]))} == {200.0}


def test_a_name_is_text_and_never_markup():
    html = _of([1.0, 2.0], name="<script>alert(1)</script>")
    assert "<script" not in html


def test_neither_dash_nor_plotly_is_imported_for_it():
    heavy = {"dash", "plotly", "mindscope.insight"}
    program = f"import sys, mindscope.dashboard; print(sorted({heavy} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
