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


def test_what_was_exported_can_be_imported_and_shown(command: Callable, run_folder: Path, tmp_path: Path) -> None:
    command("export", "digits", tmp_path / "out", "--format", "csv", "--store", run_folder)
    told = command("import", tmp_path / "out", "--name", "again", "--store", tmp_path / "other", "--json")
    (run,) = json.loads(told.out)["runs"]
    assert (told.code, run["name"], run["last_step"]) == (0, "again", 9)
    assert command("show", "again", "--store", tmp_path / "other").code == 0


def test_a_path_that_holds_nothing_to_import_is_wrong_use(command: Callable, tmp_path: Path) -> None:
    told = command("import", tmp_path / "nothing", "--store", tmp_path / "other")
    assert (told.code, told.out) == (2, "")
    assert "does not exist" in told.err
