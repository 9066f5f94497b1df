import logging
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import mindscope
import pytest


def test_help_names_every_subcommand(command: Callable) -> None:
    told = command("--help")
    assert told.code == 0
    for name in (
        "demo",
        "run",
        "dashboard",
        "runs",
        "show",
        "diagnose",
        "verify",
        "prune",
        "migrate",
        "doctor",
        "armour",
    ):
        assert f" {name} " in told.out


@pytest.mark.parametrize("module", ["numpy", "sqlalchemy", "dash", "torch", "numba"])
def test_help_imports_nothing_heavy(module: str) -> None:
    check = f"import sys; from mindscope.cli import main; main(['--help']); sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, check=False).returncode == 0


def test_the_package_runs_as_a_module() -> None:
    told = subprocess.run([sys.executable, "-m", "mindscope", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("mindscope ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnus"], "Did you mean"),
        (["show", "--stroe", "x"], "--store"),
        (["runs", "--limit", "0"], "--limit"),
        (["run"], "SCRIPT"),
        (["demo", "--fault", "nan-at-leyer"], "did you mean 'nan-at-layer'"),
        (["demo", "--model", "mlp"], "cnn, transformer, both"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_line_on_stderr_and_code_2(command: Callable, arguments: list[str], words: str) -> None:
    told = command(*arguments)
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err


def test_debug_may_stand_behind_the_command_and_shows_the_traceback(command: Callable, tmp_path: Path) -> None:
    told = command("runs", tmp_path / "nowhere", "--debug")
    assert told.code == 3
    assert "Traceback" in told.err


def test_a_reader_that_leaves_early_is_no_error() -> None:
    many = "import sys; from mindscope.cli import main; sys.exit(main(['--help'] ))"
    child = subprocess.Popen([sys.executable, "-c", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    assert b"Traceback" not in child.stderr.read()
    child.stderr.close()
    child.wait()


def test_a_warning_of_ours_is_shown_without_our_source(
    command: Callable, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    def age(_time: float) -> str:
        shown.append(warnings.formatwarning("call eval()", UserWarning, mindscope.__file__, 1))
        return ""

    monkeypatch.setattr("mindscope.cli.runs_command.age", age)
    command("runs", run_folder)
    assert shown == ["WARNING: call eval()\n"]
    assert "train.py:7: UserWarning: odd" in warnings.formatwarning("odd", UserWarning, "train.py", 7, "")


def test_the_command_leaves_logging_and_warnings_as_they_were(command: Callable, tmp_path: Path) -> None:
    root, ours = logging.getLogger(), logging.getLogger("mindscope")
    before = list(root.handlers), root.level, list(ours.handlers), ours.propagate, ours.level, warnings.formatwarning
    assert command("--debug", "runs", tmp_path).code == 0
    after = list(root.handlers), root.level, list(ours.handlers), ours.propagate, ours.level, warnings.formatwarning
    assert after == before
