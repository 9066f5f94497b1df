"""`mindscope doctor --cost` runs a script without and with the monitor."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

SCRIPT = """
import pathlib, sys
with pathlib.Path(__file__).with_name("calls").open("a") as calls:
    print(sys.argv[1:], 'mindscope' in sys.modules, file=calls)
if "fail" in sys.argv:
    raise ValueError("no data")
held = bytearray(30_000_000)
"""


def test_both_are_run_alternately_and_compared(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    told = command("doctor", "--cost", "--repeats", "2", "--json", tmp_path / "train.py", "--depth", "3")
    document = json.loads(told.out)
    assert told.code == 1  # of a script that ends at once, nearly all is the monitor's
    assert document["wall"] == pytest.approx(document["with"]["wall_s"] / document["without"]["wall_s"])
    assert document["processor"] > 1
    assert document["without"]["memory_bytes"] > 30_000_000
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["['--depth', '3'] False", "['--depth', '3'] True"] * 2
    assert not (tmp_path / "runs").exists()


def test_a_script_that_fails_by_itself_is_wrong_use(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    told = command("doctor", "--cost", tmp_path / "train.py", "fail")
    assert told.code == 2
    assert "ended with exit code 1: ValueError: no data" in told.err
