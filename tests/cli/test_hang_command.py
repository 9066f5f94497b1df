"""`mindscope hang` names the culprit of a run, while it runs and afterwards, and of dumps of others."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mindscope.cli import hang_command
from mindscope.cli.native_stacks import NativeStacks
from mindscope.insight.hangs.hang_report import HangReport
from mindscope.storage import open_store
from mindscope.storage.last_words import FolderWords
from mindscope.storage.process import identity

from tests.insight.hangs.words import call, calls, main_thread, word

DUMPS = Path(__file__).parents[1] / "insight" / "hangs" / "data"
SLEEP = main_thread(("/home/me/train.py", 50, "step"), code="time.sleep(60)", system_call="clock_nanosleep")


def a_run(folder: Path, **more: object) -> None:
    """A run whose rank 0 waits for rank 1, which sleeps; both are this process."""
    with open_store(str(folder)) as store:
        writers = [store.begin_run("pair")]
        writers.append(store.begin_run("pair", rank=1, run_id=writers[0].run.id))
        now = time.time()
        words = FolderWords(folder, writers[0].run.id)
        waits = replace(call(9), began_at=now - 12)
        words.write(0, word(0, [*calls(), waits], at=now, writer=identity()).encode())
        words.write(1, word(1, calls(), at=now, writer=identity(), threads=SLEEP, **more).encode())
        words.close()
        for writer in writers:
            writer.close("failed", "ended by hand")


def test_a_run_that_hangs_is_told_and_changes_the_exit_code(command: Callable, tmp_path: Path) -> None:
    a_run(tmp_path / "runs")
    told = command("hang", "pair", "--store", tmp_path / "runs")
    assert told.code == 1
    assert told.out.startswith(
        "HANG: rank 1 sleeps at train.py:50: time.sleep(60). In step 3, rank 0 waits in all_reduce of world"
    )
    assert "rank 1 (missing): train.py:50 in step" in told.out
    document = json.loads(command("hang", "--json", "--store", tmp_path / "runs").out)
    assert (document["state"], document["culprits"], document["kind"]) == ("hang", [1], "sleep")


def test_afterwards_the_report_of_the_rank_that_saw_it_is_shown(command: Callable, tmp_path: Path) -> None:
    a_run(tmp_path / "runs", report={"state": "hang", "words": "rank 1 is stopped", "culprits": [1], "kind": "stopped"})
    assert command("hang", "--store", tmp_path / "runs").out.startswith("HANG: rank 1 is stopped")


def test_a_run_of_one_process_has_no_last_words(command: Callable, run_folder: Path) -> None:
    told = command("hang", "digits", "--store", run_folder)
    assert told.code == 0
    assert "only processes that train together" in told.out


def test_dumps_are_read_without_a_run(command: Callable, tmp_path: Path) -> None:
    told = command("hang", "--from", DUMPS / "trace_rank_0", DUMPS / "trace_rank_1")
    assert told.code == 1
    assert "waits in barrier of world" in told.out
    wrong = tmp_path / "x"
    wrong.write_text("hello")
    told = command("hang", "--from", wrong)
    assert told.code not in (0, 1, 70)
    assert "neither a dump" in told.err
    assert command("hang", "--from").code == 2
    assert command("hang", "a", "b").code == 2


def test_frames_of_a_rank_that_only_py_spy_sees_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report = HangReport(state="hang", words="rank 1 is silent", culprits=(1,), stacks={0: ("train.py:50 in step",)})
    native = NativeStacks({1: "Thread 7\n    " + "x" * 1000}, ("no native frames of rank 0: py-spy failed",))
    hang_command._print(report, native)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "  rank 0: train.py:50 in step",
        "  rank 1 (missing): its own word has no stack",
        "    Thread 7",
    ]
    assert len(lines[4]) < 200
    assert lines[5] == "  no native frames of rank 0: py-spy failed"
