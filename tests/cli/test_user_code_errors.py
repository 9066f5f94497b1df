"""What a model of the user's own raises while a command calls it is told with its place, and is no fault of ours."""

import operator
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mindscope.cli.failures import OUR_FAULT

MODELS = """
from mindscope.framework import nn

class Net(nn.Cell):
    calls = 0

    def __init__(self):
        super().__init__()
        self.head = nn.Dense(4, 2)

    def construct(self, x):
        Net.calls += 1
        if Net.calls > self.last:
            raise KeyError("of my own")
        return self.head(x)

class Early(Net):
    last = 0

class Late(Net):
    last = 3

def trainer(x, y, seed):
    return nn.Dense(4, 2) if seed < 1 else int("two")
"""
PLACE = "own_models.py, line 14, KeyError: 'of my own'; fix it there, or see the traceback with --debug"


@pytest.fixture
def named(tmp_path: Path) -> list[object]:
    (tmp_path / "own_models.py").write_text(MODELS)
    data = np.random.default_rng(0).random((12, 4), dtype=np.float32)
    np.savez(tmp_path / "data.npz", x=data, y=np.arange(12) % 2)
    return ["--data", tmp_path / "data.npz", "--store", tmp_path / "runs"]


@pytest.mark.parametrize("model", ["Early", "Late"])
@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "--epsilons", "0.1", "--attacks", "pgd"),
        ("measure",),
        ("detect",),
        ("certify", "--method", "smoothing", "--trials", "20"),
        ("fuzz", "--attacks", "fgsm", "--rounds", "1"),
    ],
    ids=lambda words: words[0],
)
def test_a_model_that_raises_is_told_with_file_line_and_error(command: Callable, tmp_path: Path, named, words, model):
    told = command("armour", words[0], f"{tmp_path / 'own_models.py'}:{model}", *named, *words[1:])
    assert (told.code, told.out) == (2, "")
    assert f"mindscope: your own code fails: {tmp_path}" in told.err
    assert told.err.endswith(f"{PLACE}\n")


def test_a_trainer_that_raises_is_told_as_well(command: Callable, tmp_path: Path, named):
    (tmp_path / "linear.py").write_text("from mindscope.framework import nn\ndef net():\n    return nn.Dense(4, 2)\n")
    told = command(
        "armour", "privacy", f"{tmp_path / 'linear.py'}:net", *named, "--others", tmp_path / "data.npz",
        "--trainer", f"{tmp_path / 'own_models.py'}:trainer",
    )  # fmt: skip
    assert told.code == 2
    assert "own_models.py, line 24, ValueError: invalid literal" in told.err


@pytest.mark.parametrize("words", [("detect",), ("fuzz", "--attacks", "fgsm", "--rounds", "1")], ids=lambda one: one[0])
def test_a_model_without_code_of_its_own_that_does_not_take_the_data_is_no_fault_of_ours(
    command: Callable, tmp_path: Path, named, words
):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "layers.py").write_text(
        "import torch\ndef net():\n    return torch.nn.Sequential(torch.nn.Linear(5, 2)).eval()"
    )
    told = command("armour", words[0], f"{tmp_path / 'layers.py'}:net", *named, *words[1:])
    assert (told.code, told.out) == (2, "")
    assert "the model cannot be called: RuntimeError: mat1 and mat2" in told.err
    assert "check the shape and dtype of x" in told.err


def test_a_fault_of_ours_is_still_told_as_such(command: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path, named):
    monkeypatch.setattr("mindscope.cli.armour.defence_commands._thirds", operator.not_)  # which takes one argument
    (tmp_path / "linear.py").write_text("from mindscope.framework import nn\ndef net():\n    return nn.Dense(4, 2)\n")
    told = command("armour", "detect", f"{tmp_path / 'linear.py'}:net", *named)
    assert told.code == OUR_FAULT
    assert "this is a fault of mindscope" in told.err
