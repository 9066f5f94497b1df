"""A list of runs reads no run twice that is over, and reads anew whatever has changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from mindscope.cli import known_runs, runs_command
from mindscope.storage import StepRecord, open_store

from tests.storage.samples import finding


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the runs whose verdict was read from the store, in their order."""
    names: list[str] = []
    verdict_of = runs_command.stored_verdict

    def noted(store, run, damage=()):
        names.append(run.name)
        return verdict_of(store, run, damage)

    monkeypatch.setattr(runs_command, "stored_verdict", noted)
    monkeypatch.setattr(known_runs, "_usual_file", lambda: tmp_path / "cache" / "runs.json")
    return names


def test_a_run_that_is_over_is_read_once(command: Callable, read: list[str], tmp_path: Path) -> None:
    with open_store(tmp_path / "runs") as store:
        for name in ("bad", "good"):
            writer = store.begin_run(name)
            writer.write([StepRecord(0, 1.0, scalars={"loss": 1.0})], [finding()] if name == "bad" else [])
            writer.close()
        going = store.begin_run("going")
        first = command("runs", tmp_path / "runs")
        assert sorted(read) == ["bad", "going", "good"]
        again = command("runs", tmp_path / "runs")
        assert [line.split()[:6] for line in again.out.splitlines()] == [
            line.split()[:6] for line in first.out.splitlines()
        ]
        assert read[3:] == ["going"]
        store.mute(store.find_run("bad").id, finding().rule, finding().site)
        changed = json.loads(command("runs", tmp_path / "runs", "--json").out)
        assert sorted(read[4:]) == ["bad", "going"]
        assert {run["name"]: run["findings"] for run in changed["runs"]}["bad"] == 0
        going.close()
    (tmp_path / "cache" / "runs.json").write_text("[]")
    del read[:]
    command("runs", tmp_path / "runs")
    assert sorted(read) == ["bad", "going", "good"]


def test_a_file_that_changes_behind_the_store_is_read_anew(command: Callable, read: list[str], tmp_path: Path) -> None:
    with open_store(tmp_path / "runs") as store:
        store.begin_run("changed").close()
    command("runs", tmp_path / "runs")
    (file,) = (tmp_path / "runs").glob("*.rank0.db")
    os.utime(file, (1.0, 1.0))
    command("runs", tmp_path / "runs")
    assert read == ["changed", "changed"]


def test_where_nothing_can_be_kept_the_list_is_read_each_time(
    command: Callable, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(known_runs, "_usual_file", lambda: tmp_path / "file" / "runs.json")
    with open_store(tmp_path / "runs") as store:
        store.begin_run("kept").close()
    assert [command("runs", tmp_path / "runs").code for _ in range(2)] == [0, 0]
    assert read == ["kept", "kept"]
