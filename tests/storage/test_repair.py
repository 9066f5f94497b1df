"""A damaged run is written anew: from what can be read, and from a backup; what neither has stays told."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from mindscope.cli.application import main
from mindscope.storage import StoreDamaged, StoreUnavailable, blobs_of, open_store
from mindscope.storage.repair import damage_of, repair_runs
from mindscope.storage.upkeep import copy_runs

from tests.storage.samples import bits, finding, layout, walk
from tests.storage.test_damage import DAMAGES

RUN = "damaged"
PAGE = 4096


def fill(folder: Path, count: int = 600) -> None:
    """Add a run of so many records, most of them in chunks, or go on with it."""
    with open_store(folder) as store:
        writer = store.begin_run(RUN, run_id=RUN)
        records = walk(600, layout(20))
        for begin in range(writer.run.last_step + 1, count, 50):
            writer.write(records[begin : begin + 50], [finding(begin)] if begin == 100 else [])
            while writer.maintain():
                pass
        writer.close()


def file_of(folder: Path) -> Path:
    return folder / f"{RUN}.rank0.db"


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(file_of(folder))
    connection.execute(statement)
    connection.commit()
    connection.close()


def records(folder: Path) -> list[object]:
    with open_store(folder) as store:
        return [bits(record) for record in store.replay(RUN)]


def read(folder: Path) -> list[object]:
    """Everything of a run in a form that can be compared."""
    with open_store(folder) as store:
        return [records(folder), store.find_run(RUN), list(store.findings(RUN)), list(store.events(RUN))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.parametrize("name", [name for name in DAMAGES if name != "the counts"])
def test_what_a_backup_has_is_taken_from_it(folder: Path, tmp_path: Path, name: str) -> None:
    whole = read(folder)
    copy_runs(folder, tmp_path / "copy")
    change(folder, DAMAGES[name][0])
    assert damage_of(file_of(folder))
    (repair,) = repair_runs(folder, backup=tmp_path / "copy")
    assert repair.left == ()
    assert read(folder) == whole
    assert repair_runs(folder, backup=tmp_path / "copy") == []


@pytest.mark.parametrize("name", ["a chunk", "a chunk that is gone", "an event", "a span"])
def test_an_older_backup_mends_what_it_has(folder: Path, tmp_path: Path, name: str) -> None:
    older = tmp_path / "older"
    shutil.rmtree(folder)
    fill(folder, 560)
    copy_runs(folder, older)
    fill(folder)
    whole = records(folder)
    change(folder, DAMAGES[name][0])
    (repair,) = repair_runs(folder, backup=older)
    assert repair.left == ()
    assert records(folder) == whole


def test_damage_that_no_backup_mends_stays_told_and_the_file_as_it_was(folder: Path) -> None:
    change(folder, DAMAGES["a chunk"][0])
    before, told = file_of(folder).read_bytes(), damage_of(file_of(folder))
    (repair,) = repair_runs(folder)
    assert (repair.done, repair.left) == ((), told)
    assert file_of(folder).read_bytes() == before
    with open_store(folder) as store, pytest.raises(StoreDamaged, match="steps 256 to 511"):
        store.series(RUN, "layer.3", "activation/mean")


def spoil_pages(folder: Path, pages: Iterable[int]) -> None:
    """Write zeros over some pages of the file; the first is number 1."""
    path = file_of(folder)
    data = bytearray(path.read_bytes())
    for page in pages:
        data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    path.write_bytes(data)


def root_pages(folder: Path) -> dict[str, int]:
    with sqlite3.connect(file_of(folder)) as connection:
        return dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())


def test_a_lost_index_is_made_again_from_the_rows(folder: Path) -> None:
    whole = read(folder)
    spoil_pages(folder, [root_pages(folder)["event_step"]])
    assert damage_of(file_of(folder))
    (repair,) = repair_runs(folder)
    assert repair.left == ()
    assert read(folder) == whole
    assert Path(f"{file_of(folder)}.damaged").exists()


def test_a_file_without_many_pages_gives_what_is_left_and_tells_the_rest(folder: Path, tmp_path: Path) -> None:
    copy_runs(folder, tmp_path / "copy")
    whole = read(folder)
    pages = file_of(folder).stat().st_size // PAGE
    spoil_pages(folder, set(range(2, pages, 9)) - set(root_pages(folder).values()))
    before = damage_of(file_of(folder))
    assert any("the file" in line for line in before)
    (repair,) = repair_runs(folder)
    assert repair.done
    assert repair.left  # rows are gone
    assert not any("the file" in line for line in repair.left)  # but SQLite can walk through it
    (repair,) = repair_runs(folder, backup=tmp_path / "copy")
    assert repair.left == ()
    assert read(folder) == whole
    assert Path(f"{file_of(folder)}.damaged2").exists()


def test_a_table_without_its_root_comes_from_the_backup(folder: Path, tmp_path: Path) -> None:
    copy_runs(folder, tmp_path / "copy")
    whole = read(folder)
    spoil_pages(folder, [root_pages(folder)["recording"]])
    with pytest.raises(StoreDamaged, match="no readable row"):
        repair_runs(folder)
    (repair,) = repair_runs(folder, backup=tmp_path / "copy")
    assert repair.left == ()
    assert read(folder) == whole


def test_a_file_that_is_no_database_is_replaced_by_its_backup(folder: Path, tmp_path: Path, capsys) -> None:
    copy_runs(folder, tmp_path / "copy")
    whole = read(folder)
    with open_store(folder) as store:
        writer = store.begin_run("other", run_id="other")
        writer.write(walk(40, layout(6)))
        writer.close()
    file_of(folder).write_bytes(b"none" * 5000)
    assert main(["verify", "--store", str(folder)]) == 3
    assert f"{RUN}  1 damaged" in capsys.readouterr().out
    (repair,) = repair_runs(folder, backup=tmp_path / "copy")
    assert repair.left == ()
    assert read(folder) == whole


def test_a_file_that_is_no_database_stays_as_it_is(folder: Path) -> None:
    file_of(folder).write_bytes(b"none" * 5000)
    with pytest.raises(StoreDamaged):
        repair_runs(folder)
    assert file_of(folder).read_bytes()[:8] == b"nonenone"


def test_counts_that_are_damaged_are_made_from_what_is_there(folder: Path) -> None:
    whole = read(folder)
    change(folder, DAMAGES["the counts"][0])
    (repair,) = repair_runs(folder)
    assert "counted anew" in repair.done[1]
    assert repair.left == ()
    assert read(folder) == whole


def test_tensors_come_from_the_backup_or_are_put_aside(folder: Path, tmp_path: Path) -> None:
    blobs = blobs_of(str(folder), RUN)
    kept, new = blobs.put(np.arange(5)), None
    copy_runs(folder, tmp_path / "copy")
    new = blobs.put(np.arange(6))
    for path in blobs.folder.rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    repairs = repair_runs(folder, backup=tmp_path / "copy")
    assert sorted(bool(one.left) for one in repairs) == [False, True]
    np.testing.assert_array_equal(blobs.get(kept.digest), np.arange(5))
    with pytest.raises(StoreUnavailable):
        blobs.get(new.digest)


def test_a_run_that_is_written_is_refused(folder: Path) -> None:
    with open_store(folder) as store:
        writer = store.begin_run("again", run_id=RUN)
        try:
            change(folder, DAMAGES["an event"][0])
            with pytest.raises(StoreUnavailable, match="is being written by process"):
                repair_runs(folder)
        finally:
            writer.close()


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_runs(folder, tmp_path / "copy")
    change(folder, DAMAGES["a chunk"][0])
    assert main(["verify", "--repair", "--store", str(folder)]) == 3
    assert "nothing of it could be mended" in capsys.readouterr().out
    words = ["verify", RUN, "--repair", "--from", str(tmp_path / "copy"), "--store", str(folder)]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["runs"] == {RUN: []}
    assert document["repaired"][0]["left"] == []
    assert main(["verify", "--from", str(tmp_path), "--store", str(folder)]) == 2
    assert main(["verify", "--store", str(folder)]) == 0
