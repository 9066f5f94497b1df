"""`mindscope run` says which run it records, and at its end the verdict and where to look."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mindscope.storage import open_store

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), RATE)
for _ in range(30):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def lines_of(command: Callable, folder: Path, text: str) -> tuple[list[str], str]:
    (folder / "train.py").write_text(text)
    told = command("run", "--store", folder / "runs", "--", folder / "train.py")
    return [line for line in told.err.splitlines() if line.startswith("mindscope: ")], told.out


def test_a_run_is_named_when_it_begins_and_judged_when_it_ends(command: Callable, tmp_path: Path) -> None:
    told, out = lines_of(command, tmp_path, TRAINING.replace("RATE", "0.01") + "print('done')\n")
    run = open_store(tmp_path / "runs").find_run("latest").id
    assert out == "done\n"
    assert told[0] == f"mindscope: run {run} is recorded in {tmp_path / 'runs'}"
    assert told[-1].startswith(f"mindscope: look at it: mindscope diagnose {run} --store {tmp_path / 'runs'}; ")
    verdict = command("diagnose", run, "--store", tmp_path / "runs").out.partition("\n")[0]
    assert told[1] == f"mindscope: {verdict}"


def test_the_root_causes_of_a_run_are_named(command: Callable, tmp_path: Path) -> None:
    told, _ = lines_of(command, tmp_path, TRAINING.replace("RATE", "1e8"))
    verdict = command("diagnose", "latest", "--store", tmp_path / "runs").out.splitlines()
    assert told[1] == f"mindscope: {verdict[0]}"
    assert "unhealthy" in told[1]
    first = next(line for line in verdict if line.startswith("1. "))
    assert told[2].startswith(f"mindscope:   {first.partition(',')[0]}")


def test_of_a_training_after_another_it_is_told_that_its_first_steps_are_missing(
    command: Callable, tmp_path: Path
) -> None:
    text = TRAINING.replace("RATE", "0.01")
    told, _ = lines_of(command, tmp_path, text + text.replace("range(30)", "range(90)"))
    second, first = (run.id for run in open_store(tmp_path / "runs").runs())
    begun = [line for line in told if "is recorded in" in line]
    assert len(begun) == 2
    assert "missing" not in begun[0]
    assert begun[1].startswith(f"mindscope: run {second} is recorded in")
    assert begun[1].endswith(f"; it is trained after {first}, and its steps until that was clear are missing")


def test_an_error_with_escape_codes_and_lines_is_one_line(command: Callable, tmp_path: Path) -> None:
    lines_of(command, tmp_path, TRAINING.replace("RATE", "0.01") + "raise ValueError('\\x1b[31mred\\x1b[0m\\nmore')\n")
    run = open_store(tmp_path / "runs").find_run("latest").id
    shown = command("show", "latest", "--store", tmp_path / "runs").out
    assert f"  ended by: ValueError: red; all of it: mindscope events {run} --kind exception --full\n" in shown
    every = command("events", "latest", "--kind", "exception", "--full", "--store", tmp_path / "runs").out
    diagnosed = command("diagnose", "latest", "--store", tmp_path / "runs").out
    assert "red more" in every
    assert "\x1b" not in shown + every + diagnosed
