"""Commands that diagnose and describe say what of a run cannot be read, and never call it healthy."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mindscope.insight import diagnose
from mindscope.storage import StepRecord, StoreDamaged, open_store

PAGE = 4096


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two runs: a whole one, and one of two ranks, of which rank 0 has lost the page that leads to its records."""
    with open_store(str(tmp_path)) as opened:
        for run, rank in (("good", 0), ("bad", 0), ("bad", 1)):
            writer = opened.begin_run(run, run_id=run, rank=rank)
            writer.write([StepRecord(step, float(step), scalars={"loss": float("nan")}) for step in range(40)])
            writer.close()
    lose_page(tmp_path / "bad.rank0.db", "hot", "chunk", "span")
    return tmp_path


def lose_page(path: Path, *tables: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())
    content = bytearray(path.read_bytes())
    for name in tables:
        begin = (roots[name] - 1) * PAGE
        content[begin : begin + PAGE] = b"\xa5" * PAGE
    path.write_bytes(content)


def test_a_diagnosis_tells_what_is_damaged_and_what_the_rest_shows(command: Callable, store: Path) -> None:
    told = command("diagnose", "bad", "--store", store)
    assert told.code == 3
    assert "DAMAGED: rank 0: " in told.out
    assert "non_finite_loss at (model) of rank 1 since step 0" in told.out
    document = json.loads(command("diagnose", "bad", "--store", store, "--json").out)
    assert (document["verdict"], len(document["damage"])) == ("unhealthy", 1)
    with open_store(store) as opened, pytest.raises(StoreDamaged, match="malformed"):
        diagnose(opened, "bad")


def test_a_run_of_which_nothing_can_be_read_is_not_called_healthy(command: Callable, store: Path) -> None:
    lose_page(store / "bad.rank1.db", "hot", "chunk", "span")
    told = command("diagnose", "bad", "--store", store)
    assert told.code == 3
    assert told.out.startswith("bad: undetermined - a part of the run is damaged")


def test_diagnosing_all_ends_with_3_where_a_run_is_damaged(command: Callable, store: Path) -> None:
    told = command("diagnose", "--all", "--store", store)
    assert told.code == 3
    assert "unhealthy, damaged" in told.out
    document = json.loads(command("diagnose", "--all", "--store", store, "--json").out)
    assert {run["run"]: "damage" in run for run in document["runs"]} == {"good": False, "bad": True}


def test_records_that_are_not_what_was_written_count_as_damage_of_all_runs(command: Callable, tmp_path: Path) -> None:
    with open_store(str(tmp_path)) as opened:
        writer = opened.begin_run("bits", run_id="bits")
        writer.write([StepRecord(step, float(step), scalars={"loss": 1.0 + step}) for step in range(40)])
        writer.close()
    with closing(sqlite3.connect(tmp_path / "bits.rank0.db")) as connection:
        connection.execute("UPDATE stream SET part = 5")
        connection.commit()
    told = command("diagnose", "--all", "--store", tmp_path)
    assert told.code == 3
    assert "damaged" in told.out


def test_show_names_pages_that_it_did_not_need(command: Callable, store: Path) -> None:
    assert "DAMAGED" not in command("show", "good", "--store", store).out
    lose_page(store / "good.rank0.db", "former_structure")
    told = command("show", "good", "--store", store)
    assert told.code == 3
    assert "DAMAGED: good.rank0.db" in told.out
    assert "verdict: undetermined" in told.out
    document = json.loads(command("show", "good", "--store", store, "--json").out)
    assert (document["verdict"], len(document["damage"])) == ("undetermined", 1)
