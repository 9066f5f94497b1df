"""The catalogue caches what the run files say and keeps what people add; it may be deleted."""

import logging
from pathlib import Path

import pytest
from mindscope.storage import open_store
from mindscope.storage.database import folder_backend as folder_module

from tests.storage.samples import finding, layout, walk


def make_runs(folder: Path, count: int = 3) -> list[str]:
    with open_store(folder) as store:
        for at in range(count):
            writer = store.begin_run(f"run {at}", run_id=f"run-{at}", tags={"at": at, "rate": float("inf")})
            writer.write(walk(3, layout(2)), [finding()])
            writer.close()
        return [run.id for run in store.runs()]


def test_finished_runs_are_listed_without_opening_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs(tmp_path)
    with open_store(tmp_path) as store:
        before = store.runs()

    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(folder_module, "_open_recording", refuse)
    with open_store(tmp_path) as store:
        assert store.runs() == before
        assert [run.name for run in before] == ["run 2", "run 1", "run 0"]


def test_a_run_that_has_changed_is_read_again(tmp_path: Path) -> None:
    make_runs(tmp_path)
    with open_store(tmp_path) as store:
        assert store.find_run("run-1").findings == 1
        store.write_findings("run-1", [finding(9, rule="offline", severity="error")])
        assert store.find_run("run-1").worst == "error"
        writer = store.begin_run("run 1", run_id="run-1")
        assert store.find_run("run-1").state == "running"
        writer.close()


def test_the_list_is_rebuilt_when_the_catalogue_is_deleted(tmp_path: Path) -> None:
    ids = make_runs(tmp_path)
    with open_store(tmp_path) as store:
        store.annotate("run-0", remark="gone with the catalogue")
    for path in tmp_path.glob("catalogue.db*"):
        path.unlink()
    with open_store(tmp_path) as store:
        assert [run.id for run in store.runs()] == ids
        assert store.find_run("run-0").remark == ""


def test_a_damaged_catalogue_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ids = make_runs(tmp_path)
    (tmp_path / "catalogue.db").write_bytes(b"not a database at all" * 1000)
    with open_store(tmp_path) as store, caplog.at_level(logging.WARNING):
        assert [run.id for run in store.runs()] == ids
    assert "tags and remarks are not shown" in caplog.text


def test_notes_of_another_process_are_seen(tmp_path: Path) -> None:
    make_runs(tmp_path)
    with open_store(tmp_path) as one, open_store(tmp_path) as other:
        assert one.find_run("run-0").remark == ""
        other.annotate("run-0", remark="seen", tags={"best": True})
        assert one.find_run("run-0").remark == "seen"
        other.mute("run-0", "dead-relu", "layer.1")
        assert one.findings("run-0") == ()
        assert one.find_run("run-0").findings == 0
