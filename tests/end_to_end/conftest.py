"""The command as a process of its own, watched line by line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mindscope.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_BROWSER = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One Chromium for all tests that look at pages."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no browser: neither chromium nor google-chrome is on the path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(_BROWSER))
        yield browser
        browser.close()


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
