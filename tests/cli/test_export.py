import csv
import json
from collections.abc import Callable
from pathlib import Path


def test_export_writes_the_files_that_it_names(command: Callable, run_folder: Path, tmp_path: Path) -> None:
    told = command("export", "digits", tmp_path / "out", "--format", "csv", "--store", run_folder, "--json")
    (written,) = json.loads(told.out)["files"]
    with Path(written).open(newline="") as file:
        losses = [float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "scalar/loss"]
    assert losses == [1.0 / (1 + step) for step in range(10)]


def test_an_unknown_format_is_wrong_use(command: Callable, run_folder: Path, tmp_path: Path) -> None:
    told = command("export", "digits", tmp_path / "out", "--format", "tensorbord", "--store", run_folder)
    assert (told.code, told.out) == (2, "")
    assert "tensorboard" in told.err
