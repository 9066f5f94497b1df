"""Native frames of a hang: by a real py-spy where there is one, and what is said where it is refused or fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from mindscope.cli import native_stacks as module
from mindscope.cli.native_stacks import native_stacks
from mindscope.insight.hangs.hang_report import HangReport
from mindscope.storage.encoding.record_codec import from_json, to_json
from mindscope.storage.last_words import LastWord
from mindscope.storage.process import identity, process_state, started_at

from tests.insight.hangs.words import calls, word

HANG = HangReport(state="hang", culprits=(1,))
#: Hangs in a lock, two functions deep, after it has said so.
_HANGS = """
import threading
lock = threading.Lock()
def wait_for_ever():
    print("ready", flush=True)
    lock.acquire()
lock.acquire()
wait_for_ever()
"""
#: What py-spy 0.4.3 prints on stderr.
OTHER_USER = """Permission Denied: Try running again with elevated permissions by going 'sudo env "PATH=$PATH" !!'"""
NO_PTRACE = """Error: Failed to get stack traces

Caused by:
    0: Failed to suspend process
    1: EPERM: Operation not permitted
"""
BROKEN = "Error: Failed to get name\n\nCaused by:\n    0: Odd\n    1: No such file\n\nStack backtrace:\n   0: anyhow"
DUMP = """Process 7: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (idle): "MainThread"
    wait_for_ever (train.py:6)
Thread 8 (idle): "mindscope-heartbeat"
    Event.wait (threading.py:629)
"""


@pytest.fixture
def hanging() -> Iterator["subprocess.Popen[str]"]:
    """A process of Python that hangs."""
    with subprocess.Popen([sys.executable, "-c", _HANGS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def words_of(process: "subprocess.Popen[str]", ranks: tuple[int, ...] = (1,)) -> Mapping[int, LastWord]:
    own = from_json(identity())
    writer = to_json({**own, "pid": process.pid, "started": started_at(process.pid)})
    return {rank: word(rank, calls(), writer=writer) for rank in ranks}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "FakeSpy":
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return FakeSpy(tmp_path)


class FakeSpy:
    """A py-spy on PATH that notes how it was called, and answers each kind of call as it is told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answers(self, native: str, nonblocking: str = "exit 1") -> None:
        """Takes shell lines for both kinds of call."""
        path = self._folder / "py-spy"
        notes = f'echo "$*" >> {self._folder}/called\n'
        path.write_text(f"#!/bin/sh\n{notes}case $2 in\n--native) {native};;\n*) {nonblocking};;\nesac\n")
        path.chmod(0o755)

    def prints(self, text: str, *, fails: bool = False) -> str:
        """Returns the shell line that prints the text, on stderr if it fails."""
        file = self._folder / f"text{len(list(self._folder.iterdir()))}"
        file.write_text(text)
        return f"cat {file} >&2; exit 1" if fails else f"cat {file}"

    @property
    def options(self) -> list[str]:
        """The option of each call."""
        return [line.split()[1] for line in (self._folder / "called").read_text().splitlines()]


@pytest.mark.skipif(module._program() is None, reason="no py-spy on PATH; pip install py-spy")
def test_a_real_py_spy_shows_native_and_python_frames_of_a_hanging_process(hanging: "subprocess.Popen[str]") -> None:
    found = native_stacks(HANG, words_of(hanging))
    assert "wait_for_ever" in found.stacks[1]
    assert process_state(words_of(hanging)[1].writer).letter == "S"
    if found.notes:
        assert "ptrace is refused" in found.notes[0]
        pytest.skip("py-spy may not use ptrace here, so there are no native frames to look at")
    assert "acquire_lock" in found.stacks[1]


def test_threads_of_the_training_alone_are_shown(hanging: "subprocess.Popen[str]", fake: FakeSpy) -> None:
    fake.answers(fake.prints(DUMP))
    found = native_stacks(HANG, words_of(hanging))
    assert found.stacks == {1: 'Thread 7 (idle): "MainThread"\n    wait_for_ever (train.py:6)'}
    assert (found.notes, fake.options) == ((), ["--native"])


@pytest.mark.parametrize("refusal", [OTHER_USER, NO_PTRACE], ids=["another user", "container"])
def test_where_ptrace_is_refused_one_line_says_so_and_what_to_do(
    hanging: "subprocess.Popen[str]", fake: FakeSpy, refusal: str
) -> None:
    fake.answers(fake.prints(refusal, fails=True), fake.prints(DUMP))
    found = native_stacks(HANG, words_of(hanging, (0, 1)))
    assert "wait_for_ever" in found.stacks[0]  # without ptrace, Python frames may be read all the same
    (note,) = found.notes
    assert note.startswith("no native frames of ranks 0 and 1: py-spy may not look into the process, ptrace is refused")
    for remedy in ("sudo", "--cap-add=SYS_PTRACE", "ptrace_scope"):
        assert remedy in note
    assert "\n" not in note


def test_another_failure_is_told_by_its_words(hanging: "subprocess.Popen[str]", fake: FakeSpy) -> None:
    fake.answers(fake.prints(BROKEN, fails=True))
    found = native_stacks(HANG, words_of(hanging))
    assert found.stacks == {}
    assert found.notes == ("no native frames of rank 1: py-spy failed: Failed to get name: No such file",)


def test_a_py_spy_that_does_not_answer_is_given_up(
    hanging: "subprocess.Popen[str]", fake: FakeSpy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPY_S", 0.5)
    fake.answers("exec sleep 60", fake.prints(DUMP))
    found = native_stacks(HANG, words_of(hanging))
    assert "has not answered" in found.notes[0]


def test_a_process_that_is_stopped_or_may_go_on_is_not_stopped_by_ptrace(
    hanging: "subprocess.Popen[str]", fake: FakeSpy
) -> None:
    fake.answers(fake.prints(DUMP), fake.prints(DUMP))
    assert native_stacks(HangReport(state="slow"), words_of(hanging)).stacks
    hanging.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, hanging.pid, os.WSTOPPED | os.WNOWAIT)
    assert native_stacks(HANG, words_of(hanging)).stacks
    assert fake.options == ["--nonblocking", "--nonblocking"]


def test_culprits_are_looked_at_first_and_at_most_sixteen_ranks(
    hanging: "subprocess.Popen[str]", fake: FakeSpy
) -> None:
    fake.answers(fake.prints(DUMP))
    found = native_stacks(HangReport(state="hang", culprits=(30,)), words_of(hanging, tuple(range(40))))
    assert list(found.stacks) == [30, *range(15)]


def test_ranks_that_are_gone_or_elsewhere_are_left_alone(fake: FakeSpy) -> None:
    fake.answers(fake.prints(DUMP))
    elsewhere = to_json({"machine": "another", "host": "another", "pid": 1, "started": "1"})
    gone = to_json({**from_json(identity()), "started": "1"})
    words = {0: word(0, calls(), writer=elsewhere), 1: word(1, calls(), writer=gone), 2: word(2, calls())}
    assert native_stacks(HANG, words).stacks == {}
