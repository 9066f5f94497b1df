"""A run that ends in an exception or by a signal is diagnosed: what, where, and at which line of the script."""

import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mindscope.insight import diagnose
from mindscope.probe.end_note import EndNote
from mindscope.storage import open_store
from mindscope.storage.end_note import note_path, read_note
from mindscope.watching import run_script

TRAINING = """
import os, signal, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    if step == 4:
        pass  # here
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def training(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")

    def write(fault):
        (tmp_path / "train.py").write_text(TRAINING.replace("pass  # here", fault))
        return tmp_path / "train.py"

    return write


@pytest.mark.parametrize(
    ("fault", "cause", "site", "words"),
    [
        ("x = torch.randn(5, 7)", "input_mismatch", "0", "Linear '0' got (5, 7) float32; it expects a last axis of 4"),
        ("model[2].double()", "input_mismatch", "2", "it has weight (3, 8) float64, bias (3,) float64"),
        ("y = torch.arange(5)", "input_mismatch", "", "y (5,) int64 from 0 to 4"),
        ("raise KeyError('label')", "program_error", "", "KeyError: 'label' at train.py:8: `raise KeyError('label')`"),
        ("torch.empty(10**15)", "out_of_memory", "", "train.py:8: `torch.empty(10**15)`; held: parameters 0.000"),
    ],
)
def test_an_exception_is_a_finding_with_its_cause_site_and_line(tmp_path, training, capsys, fault, cause, site, words):
    told = []
    code = run_script(
        training(fault), (), store=tmp_path / "runs", report=lambda run, diagnosis: told.append((run, diagnosis))
    )
    assert code == 1
    capsys.readouterr()
    stored = diagnose(open_store(tmp_path / "runs"), "latest")
    for found in (stored, told[-1][1]):
        assert found.verdict == "unhealthy"
        assert (found.root_causes[0].cause, found.root_causes[0].site) == (cause, site)
        assert words in found.root_causes[0].explanation
    assert stored.findings == told[-1][1].findings


@pytest.mark.parametrize("fault", ["raise SystemExit(3)", "raise KeyboardInterrupt"])
def test_an_end_that_was_asked_for_is_no_finding(tmp_path, training, capsys, fault):
    assert run_script(training(fault), (), store=tmp_path / "runs") != 0
    capsys.readouterr()
    found = diagnose(open_store(tmp_path / "runs"), "latest")
    assert (found.verdict, found.findings) == ("undetermined", ())


@pytest.mark.parametrize(
    ("fault", "code", "error", "severity"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "SIGTERM at {script}, line 8", "info"),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, "Segmentation fault at {script}, line 8", "error"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "", "info"),
    ],
)
def test_a_signal_is_named_as_the_reason_and_the_process_ends_as_it_would_have(
    tmp_path, training, fault, code, error, severity
):
    script = training(fault)
    words = [sys.executable, "-m", "mindscope", "run", "--store", "runs", "--", "train.py"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    assert subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == code
    store = open_store(tmp_path / "runs")
    run = store.find_run("latest")
    assert (run.state, run.error) == ("crashed", error.format(script=script))
    (finding,) = diagnose(store, run.id).findings
    assert (finding.cause, finding.severity) == ("process_killed", severity)
    store.delete_run(run.id)
    assert not list((tmp_path / "runs").glob("*.end"))


def test_a_note_leaves_python_s_own_handlers_as_they_are(tmp_path):
    before = signal.getsignal(signal.SIGTERM), faulthandler.is_enabled()
    note = EndNote(tmp_path / "x.end")
    assert signal.getsignal(signal.SIGTERM) == before[0]
    note.discard()
    assert (signal.getsignal(signal.SIGTERM), faulthandler.is_enabled()) == before
    assert not (tmp_path / "x.end").exists()


def test_a_note_without_words_says_nothing(tmp_path):
    (tmp_path / "x.end").touch()
    assert read_note(tmp_path / "x.end") == read_note(tmp_path / "missing") == ""
    (tmp_path / "x.end").write_text(
        f'Current thread 0x1 (most recent call first):\n  File "{os.__file__}", line 3 in f\n'
    )
    assert read_note(tmp_path / "x.end") == f"SIGTERM at {os.__file__}, line 3"
    assert note_path("memory:", "run", 0) is None
    assert note_path("runs/", "run", 1) == Path("runs/run.rank1.end")
