"""A store with one finished run, written through the public interface, and the command called in-process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from mindscope.cli import main
from mindscope.storage import Block, Finding, Layout, ModuleInfo, ParameterInfo, StepRecord, Structure, open_store

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
DTYPES = ("float32",) * 5 + ("uint64",) * 5


@dataclass(frozen=True, slots=True)
class Told:
    code: int
    out: str
    err: str


Command = Callable[..., Told]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Calls `mindscope ARGUMENTS` and returns its exit code and what it printed."""
    monkeypatch.delenv("MINDSCOPE_STORE", raising=False)

    def call(*arguments: object) -> Told:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return call


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A store whose one run, `digits`, trained ten steps and has one finding."""
    folder = tmp_path / "runs"
    layout = Layout("weight", ("body.weight",), STATISTICS, DTYPES)
    structure = Structure(
        modules=(ModuleInfo("body", "Dense", 0), ModuleInfo("", "Net", 1, ("body",), is_leaf=False)),
        parameters=(ParameterInfo("body.weight", (4, 8), "float32", group=(0, 0)),),
        subjects=("weight",),
    )
    finding = Finding(
        "dead-units", "dead_units", "warning", 7, 5, "body", "activation/zeros", {"share": 1.0}, "no unit fires",
        "raise the bias",
    )  # fmt: skip
    with open_store(str(folder)) as store:
        writer = store.begin_run("digits", framework="engine", tags={"lr": 0.1})
        writer.write_structure(structure)
        records = [
            StepRecord(
                step=step,
                time=1000.0 + step,
                scalars={"loss": 1.0 / (1 + step)},
                blocks=(Block(layout, np.array([[1.0, 0.0, 1.0, -2.0, 2.0, 0, 0, 0, 0, 32]])),),
            )
            for step in range(10)
        ]
        writer.write(records, [finding])
        writer.close()
    return folder


@pytest.fixture
def nan_folder(tmp_path: Path) -> Path:
    """A store whose one run has a loss that turned NaN while the weights stayed finite, and no finding yet."""
    folder = tmp_path / "nan"
    with open_store(str(folder)) as store:
        writer = store.begin_run("broken")
        writer.write(
            [
                StepRecord(step=step, time=float(step), scalars={"loss": 1.0 if step < 5 else float("nan")})
                for step in range(10)
            ]
        )
        writer.close()
    return folder
