import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def test_doctor_tells_versions_cores_and_blas(command: Callable, tmp_path: Path) -> None:
    told = command("doctor", tmp_path / "runs")
    assert told.code == 0
    for word in ("mindscope", "numpy", "cores", "blas", "sqlite", "torch"):
        assert word in told.out


def test_doctor_as_json_is_one_list_of_checks(command: Callable, tmp_path: Path) -> None:
    checks = json.loads(command("doctor", tmp_path / "runs", "--json").out)["checks"]
    assert {check["state"] for check in checks} <= {"ok", "missing", "warning", "error"}
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("mindspore", "numpy", "state"),
    [("", "2.4.6", "missing"), ("2.10.0", "1.26.4", "ok"), ("2.10.0", "2.4.6", "warning")],
)
def test_doctor_sends_mindspore_into_an_environment_of_its_own(
    command: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mindspore: str, numpy: str, state: str
) -> None:
    installed = {"mindspore": mindspore, "numpy": numpy}
    monkeypatch.setattr("mindscope.cli.doctor_command._version", lambda name: installed.get(name, "1.0"))
    checks = json.loads(command("doctor", tmp_path / "runs", "--json").out)["checks"]
    (check,) = (check for check in checks if check["name"] == "mindspore")
    assert check["state"] == state
    assert ("not into this environment, as it needs NumPy 1.26" in check["advice"]) is (state != "ok")
    assert not check["advice"].startswith("pip install")


def test_doctor_opens_the_store_that_is_there(command: Callable, run_folder: Path) -> None:
    assert "1 runs" in command("doctor", run_folder).out


def test_doctor_of_a_store_that_cannot_be_read_is_code_3(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("this is no store")
    told = command("doctor", tmp_path / "file")
    assert told.code == 3
    assert "Traceback" not in told.out + told.err


@pytest.mark.parametrize("asked", [("runs",), ("doctor",), ("show", "latest", "--store"), ("diagnose", "--store")])
def test_a_store_in_which_every_run_is_damaged_is_code_3(command: Callable, tmp_path: Path, asked: tuple) -> None:
    (tmp_path / "a.rank0.db").write_bytes(b"garbage" * 4000)
    told = command(*asked, tmp_path)
    assert told.code == 3
    assert "a.rank0.db" in "".join((told.out + told.err).split())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_doctor_of_a_place_that_cannot_be_written_is_code_3(command: Callable, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert command("doctor", tmp_path / "runs").code == 3


SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1))
optimizer = torch.optim.Adam(model[0].parameters(), 1e-3)
for step in range(10):
    print("step", step)
    loss = nn.functional.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_doctor_of_a_script_runs_some_steps_and_says_what_is_wrong(command: Callable, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    told = command("doctor", "--steps", "2", "--json", script)
    assert told.code == 1
    document = json.loads(told.out)
    assert document["steps"] == 2
    causes = {finding["cause"] for finding in document["diagnosis"]["findings"]}
    assert {"loss_input_domain", "parameter_not_in_optimizer"} <= causes
    assert "step 3" not in told.err
    assert {"loss_input", "forward_modes", "initial_checksum"} <= {fact["kind"] for fact in document["facts"]}


def test_doctor_finds_a_model_that_is_trained_in_evaluation_mode(command: Callable, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = tmp_path / "train.py"
    script.write_text(
        SCRIPT.replace("nn.ReLU()", "nn.ReLU(), nn.Dropout(0.5)").replace("for step", "model.eval()\nfor step")
    )
    told = command("doctor", script)
    assert told.code == 1
    assert "wrong_train_eval_mode" in told.out
    assert "\nheld:\n" in told.out
    assert "forward passes in step" in told.out
    assert not re.search(r"\b[a-z]+_[a-z]+_[a-z_]+\b", told.out.partition("\nheld:\n")[2])  # no names of checks
    assert not re.search(r"[0-9a-f]{16}", told.out)  # checksums are for programs


TENSORS = """
import torch
w = torch.zeros(3, requires_grad=True)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD([w], 0.01) if {has_optimizer} else None
for step in range(1000):
    x = torch.randn(16, 3)
    output = model(x)[:, 0] if {has_module} else x @ w
    loss = (output - x.sum(1)).square().mean()
    loss.backward()
    for p in [] if optimizer else model.parameters() if {has_module} else [w]:
        p.data -= 0.01 * p.grad
    if optimizer:
        optimizer.step()
    w.grad = None
    model.zero_grad()
open("ended", "w").close()
"""


@pytest.mark.parametrize(
    ("has_optimizer", "has_module"),
    [(True, False), (False, False), (False, True)],
    ids=["an optimizer", "by hand", "a module by hand"],
)
def test_a_training_whose_forwards_are_not_seen_is_stopped_and_its_text_is_no_fact(tmp_path, has_optimizer, has_module):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TENSORS.format(has_optimizer=has_optimizer, has_module=has_module))
    command = [sys.executable, "-m", "mindscope", "doctor", "train.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "train.py: 60 steps were run, exit code 0" in told.stdout
    assert not (tmp_path / "ended").exists()
    assert "program_text" not in told.stdout
    assert "optimizer.zero_grad()" not in told.stdout
