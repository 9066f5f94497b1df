"""The command as a process of its own, watched line by line."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mindscope.cli import main

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `mindscope ARGUMENTS` in an empty folder; what still runs at the test's end is killed."""
    children: list[subprocess.Popen[str]] = []

    def start_command(*arguments: object) -> "subprocess.Popen[str]":
        child = subprocess.Popen(
            [sys.executable, "-m", "mindscope", *(str(argument) for argument in arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start_command
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.fixture
def finish(start: Start) -> "Callable[..., subprocess.CompletedProcess[str]]":
    """Runs `mindscope ARGUMENTS` to its end."""

    def run_command(*arguments: object) -> "subprocess.CompletedProcess[str]":
        child = start(*arguments)
        out, err = child.communicate(timeout=240)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    return run_command


@dataclass(frozen=True, slots=True)
class Told:
    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """Calls `mindscope ARGUMENTS` in this process, which is faster; its exit code and what it printed."""
    monkeypatch.delenv("MINDSCOPE_STORE", raising=False)

    def call(*arguments: object) -> Told:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return call
