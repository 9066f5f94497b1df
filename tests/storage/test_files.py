"""The files of a run: which are there when, what each is good for, and that the page says so."""

import re
import shutil
from pathlib import Path

import pytest
from mindscope.storage import StepRecord, open_store

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "store.md").read_text()
STEPS = 30


def endings(folder: Path) -> set[str]:
    """How the names of the run's files end."""
    return {f".db{path.name.rpartition('.db')[2]}" for path in folder.iterdir() if ".rank0.db" in path.name}


@pytest.fixture
def left_behind(tmp_path: Path) -> Path:
    """A copy of what lies in a folder while a run is written: what is left when its process is killed."""
    with open_store(tmp_path / "runs") as store:
        writer = store.begin_run("cut")
        for step in range(STEPS):
            writer.write([StepRecord(step, float(step), scalars={"loss": 1.0 / (1 + step)})])
        shutil.copytree(tmp_path / "runs", tmp_path / "left")
        writer.close()
    return tmp_path / "left"


def steps_in(folder: Path) -> int:
    with open_store(folder) as store:
        return sum(len(store.series(run.id, "", "scalar/loss").steps) for run in store.runs())


def test_a_run_that_is_written_has_its_log_and_its_ballast(left_behind: Path) -> None:
    assert endings(left_behind) == {".db", ".db-wal", ".db-shm", ".db-ballast"}
    (ballast,) = left_behind.glob("*.db-ballast")
    assert ballast.stat().st_size == 2 * 2**20
    for ending in endings(left_behind):
        assert f"`<run>.rank<k>{ending}`" in PAGE


def test_a_run_that_ended_well_is_its_database_alone_until_it_is_read(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        writer = store.begin_run("whole")
        writer.write([StepRecord(step, float(step), scalars={"loss": 1.0}) for step in range(STEPS)])
        writer.close()
        assert endings(tmp_path) == {".db"}
        assert steps_in(tmp_path) == STEPS
    assert all(path.stat().st_size == 0 for path in tmp_path.glob("*.rank0.db-wal"))


def test_what_is_left_of_a_killed_run_needs_its_log_and_nothing_else(left_behind: Path) -> None:
    for ending in ("shm", "ballast"):
        for path in left_behind.glob(f"*.rank0.db-{ending}"):
            path.unlink()
    assert steps_in(left_behind) == STEPS


def test_a_database_without_its_log_lacks_what_had_not_moved(left_behind: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (database,) = left_behind.glob("*.rank0.db")
    shutil.copy(database, tmp_path / "moved")
    assert steps_in(tmp_path / "moved") < STEPS


def test_the_page_names_every_state() -> None:
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.M) == ["running", "finished", "failed", "crashed"]
