"""Stores are copied while they are written, merged without losing anything, and pruned of what is old."""

import json
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from mindscope.cli.application import main
from mindscope.storage import StoreDamaged, StoreUnavailable, blobs_of, open_store
from mindscope.storage.upkeep import CopyIncomplete, copy_runs, plan_pruning, size_of

from tests.storage.samples import bits, layout, walk

DAY_S = 86400.0


def write(folder: Path, name: str, count: int = 40, **begin: object) -> str:
    with open_store(folder) as store:
        writer = store.begin_run(name, run_id=name, **begin)
        writer.write(walk(count, layout(6)))
        writer.close()
    return name


def records(folder: Path, run: str) -> list[object]:
    with open_store(folder) as store:
        return [bits(record) for record in store.replay(run)]


def age(folder: Path, run: str, days: float) -> None:
    """Let a run have ended some days ago, and its row be what its writer would have written."""
    with open_store(folder) as store:
        writer = store.begin_run(run, run_id=run)
        writer.close()
    connection = sqlite3.connect(folder / f"{run}.rank0.db")
    connection.execute("UPDATE recording SET updated_at = ?", [time.time() - days * DAY_S])
    connection.execute("DELETE FROM ledger")
    connection.commit()
    connection.close()


def test_a_backup_is_a_store_with_everything_in_it(tmp_path: Path) -> None:
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    for name in ("first", "second"):
        write(runs, name)
    blobs_of(str(runs), "first").put(np.arange(5))
    with open_store(runs) as store:
        store.annotate("first", tags={"lr": 0.1}, remark="the good one")
        store.mute("first", "dead-relu", "layer.1")
    assert copy_runs(runs, copy) == {"first": "copied", "second": "copied"}
    assert records(copy, "first") == records(runs, "first")
    assert {path.name for path in copy.rglob("*.safetensors")} == {path.name for path in runs.rglob("*.safetensors")}
    with open_store(copy) as store:
        assert (store.find_run("first").remark, store.find_run("first").tags) == ("the good one", {"lr": 0.1})
        assert store.muted("first") == (("dead-relu", "layer.1"),)
        assert store.verify("first") == ()
    assert copy_runs(runs, copy) == {"first": "there", "second": "there"}


def test_a_run_is_copied_whole_while_it_is_written(tmp_path: Path) -> None:
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    written = walk(400, layout(6))
    is_over = threading.Event()

    def train() -> None:
        with open_store(runs) as store:
            writer = store.begin_run("live", run_id="live")
            for begin in range(0, 400, 8):
                writer.write(written[begin : begin + 8])
                writer.maintain()
                time.sleep(0.002)
            is_over.wait(20)
            writer.close()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        copies: list[list[object]] = []
        while len(copies) < 4:
            if runs.exists() and copy_runs(runs, copy).get("live", "begun") != "begun":
                copies.append(records(copy, "live"))
    finally:
        is_over.set()
        thread.join()
    whole = records(runs, "live")
    assert len(whole) == 400
    assert all(found == whole[: len(found)] for found in copies)
    assert [len(found) for found in copies] == sorted(map(len, copies))
    copy_runs(runs, copy)
    assert records(copy, "live") == whole


def test_a_copy_that_has_more_is_left_alone(tmp_path: Path) -> None:
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    write(runs, "run", 20)
    copy_runs(runs, copy)
    with open_store(copy) as store:
        writer = store.begin_run("run", run_id="run")
        writer.write(walk(10, layout(6), first=100))
        writer.close()
    assert copy_runs(runs, copy) == {"run": "older"}
    assert len(records(copy, "run")) == 30


def test_a_damaged_file_is_not_copied_over_a_good_one(tmp_path: Path) -> None:
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    write(runs, "run")
    copy_runs(runs, copy)
    (runs / "run.rank0.db").write_bytes(b"no database at all" * 400)
    with pytest.raises(StoreDamaged, match="cannot be read as a run"):
        copy_runs(runs, copy)
    assert len(records(copy, "run")) == 40


def test_a_file_that_cannot_be_read_costs_a_backup_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, copy = tmp_path / "runs", tmp_path / "copy"
    for name in ("a", "broken", "z"):
        write(runs, name)
    with open_store(runs) as store:
        store.annotate("z", remark="the last one")
    whole = records(runs, "z")
    (runs / "broken.rank0.db").write_bytes(b"no database at all" * 400)
    with pytest.raises(CopyIncomplete, match=r"1 of the files.*broken\.rank0\.db cannot be read as a run") as caught:
        copy_runs(runs, copy)
    assert (caught.value.copied, list(caught.value.failed)) == ({"a": "copied", "z": "copied"}, ["broken.rank0.db"])
    assert records(copy, "z") == whole
    with open_store(copy) as store:
        assert store.find_run("z").remark == "the last one"
    assert main(["backup", str(tmp_path / "other"), "--store", str(runs)]) == 3
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == ["a", "z", "broken.rank0.db"]
    assert "NOT COPIED" in told.out
    assert "verify --repair" in told.err
    assert main(["backup", str(tmp_path / "other"), "--store", str(runs), "--json"]) == 3
    assert list(json.loads(capsys.readouterr().out)["failed"]) == ["broken.rank0.db"]


def test_a_database_is_left_to_its_own_tools(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="pg_dump"):
        copy_runs("postgresql+psycopg://127.0.0.1/test", tmp_path)


def test_pruning_takes_the_old_then_the_oldest_and_spares_what_is_kept(tmp_path: Path) -> None:
    for name, days in (("ancient", 90), ("old", 40), ("new", 1), ("newest", 0)):
        write(tmp_path, name)
        age(tmp_path, name, days)
    with open_store(tmp_path) as store:
        store.annotate("ancient", tags={"keep": True})
        room = sum(size_of(str(tmp_path), name) for name in ("ancient", "newest"))
        planned = plan_pruning(store, now=time.time(), keep_s=30 * DAY_S, most_bytes=None)
        assert [one.run.id for one in planned] == ["old"]
        planned = plan_pruning(store, now=time.time(), keep_s=30 * DAY_S, most_bytes=room)
        assert [one.run.id for one in planned] == ["old", "new"]
        writer = store.begin_run("writing")
        assert all(one.run.state != "running" for one in plan_pruning(store, now=2e9, keep_s=1.0, most_bytes=0))
        writer.close()


def test_the_commands_remove_only_what_was_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "runs")
    for name, days in (("old", 40), ("new", 0)):
        write(tmp_path / "runs", name)
        age(tmp_path / "runs", name, days)
    assert main(["prune", "--store", store]) == 2
    assert "--keep 30d" in capsys.readouterr().err
    assert main(["prune", "--keep", "soon", "--store", store]) == 2
    assert main(["prune", "--max-size", "much", "--store", store]) == 2
    capsys.readouterr()
    assert main(["prune", "--keep", "30d", "--dry-run", "--store", store]) == 0
    assert "its last change was 40.0 days ago" in capsys.readouterr().out
    assert main(["backup", str(tmp_path / "copy"), "--store", store]) == 0
    assert main(["prune", "--keep", "30d", "--store", store]) == 2  # nobody can be asked
    assert main(["prune", "--keep", "30d", "--yes", "--store", store]) == 0
    assert main(["delete", "new", "--yes", "--store", store]) == 0
    with open_store(store) as opened:
        assert opened.runs() == ()
    assert main(["restore", str(tmp_path / "copy"), "--store", store]) == 0
    assert main(["merge", store, str(tmp_path / "other")]) == 0
    assert records(tmp_path / "other", "old") == records(tmp_path / "copy", "old")
