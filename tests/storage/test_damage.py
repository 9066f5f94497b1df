"""Damaged files are told, name what is damaged, and still give the rest."""

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from mindscope.cli.application import main
from mindscope.storage import StoreDamaged, blobs_of, open_store

from benchmarks.reliability.damaged_files import CRASHED, WRONG, campaign, judged, read_all, write_samples
from tests.storage.samples import finding, layout, walk

RUN = "damaged"
EVERYTHING = bool(os.environ.get("MINDSCOPE_TEST_ALL"))


def test_no_damage_at_random_is_silently_wrong() -> None:
    trials = campaign(1000 if EVERYTHING else 25, seed=0 if EVERYTHING else 7)
    assert [trial for trial in trials if trial.outcome in (WRONG, CRASHED)] == []
    assert sum(trial.outcome == "told" for trial in trials) > len(trials) // 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed run of 600 records, so that most are in chunks."""
    with open_store(tmp_path) as store:
        writer = store.begin_run(RUN, run_id=RUN)
        records = walk(600, layout(20))
        for begin in range(0, 600, 50):
            writer.write(records[begin : begin + 50], [finding(begin)] if begin == 100 else [])
            while writer.maintain():
                pass
        writer.close()
    return tmp_path


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / f"{RUN}.rank0.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


#: What a damaged header of a row makes of a column: nothing, bytes, text that is no UTF-8, other text, numbers.
OTHERS = ("NULL", "X'CE41'", "CAST(X'CE41' AS TEXT)", "'abc'", "7", "-3.5")
#: What once raised another error than `StoreDamaged`: a writer's identity that is JSON, and no object.
ONCE_WRONG = ("recording", "writer", "7")


def columns_of(sample: Path) -> tuple[str, list[tuple[str, str]]]:
    """The file of a store, and its columns, of which none refuses NULL any more."""
    file = next(sample.glob("*.rank0.db")).name
    with closing(sqlite3.connect(sample / file)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [(table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    return file, columns


def set_newest(file: Path, table: str, column: str, value: str) -> None:
    connection = sqlite3.connect(file)
    newest = f"(SELECT max(rowid) FROM {table})"
    with suppress(sqlite3.IntegrityError), connection:
        connection.execute(f'UPDATE {table} SET "{column}" = {value} WHERE rowid = {newest}')
    connection.close()


@pytest.mark.parametrize("kind", ["closed", "killed", "tensors"])
def test_a_column_of_another_type_is_damage_as_any_other(tmp_path: Path, kind: str) -> None:
    sample = next(one for one in write_samples(tmp_path) if one.name == kind)
    (sample / "digests.json").write_text("[]")
    truth, _, _ = read_all(sample)
    file, columns = columns_of(sample)
    cases = [(*column, value) for column in columns for value in OTHERS]
    for table, column, value in cases if EVERYTHING else [ONCE_WRONG, *random.Random(kind).sample(cases, 20)]:
        copy = tmp_path / "copy" / kind
        shutil.copytree(sample, copy)
        set_newest(copy / file, table, column, value)
        trial = judged(f"{table}.{column} = {value}", truth, *read_all(copy))
        assert trial.outcome not in (WRONG, CRASHED), trial
        shutil.rmtree(copy)


#: Columns whose damage once reached what a command computes or prints.
ONCE_SHOWN = [("recording", name) for name in ("rank", "name", "updated_at", "revision")] + [("chunk", "tier")]


@pytest.mark.parametrize("value", ["CAST(X'CE41' AS TEXT)", "7"], ids=["no-utf-8", "number"])
def test_every_command_says_what_is_damaged_and_goes_on(tmp_path: Path, value: str, capsys) -> None:
    sample = next(one for one in write_samples(tmp_path) if one.name == "tensors")
    file, columns = columns_of(sample)
    for table, column in columns if EVERYTHING else [*ONCE_SHOWN, *random.Random(value).sample(columns, 5)]:
        copy = tmp_path / "copy"
        shutil.copytree(sample, copy)
        set_newest(copy / file, table, column, value)
        for command in (["runs"], ["runs", "--json"], ["show", RUN], ["diagnose", RUN, "--json"], ["verify"]):
            with suppress(SystemExit):
                main([*command, "--store", str(copy)])
            told = capsys.readouterr()
            assert "a fault of mindscope" not in told.err, (table, column, command, told.err)
            (told.out + told.err).encode()
        shutil.rmtree(copy)


#: Changes the last byte of packed data.
SPOILED = "data = CAST(substr(data, 1, length(data) - 1) || X'07' AS BLOB)"
#: A changed row of each table, a call that reads it, and words that say what is damaged.
DAMAGES = {
    "a chunk": (
        f"UPDATE chunk SET {SPOILED} WHERE tier = 1 AND first = 256 AND statistic = 1 AND site_group = 0",
        lambda store: store.series(RUN, "layer.3", "activation/mean"),
        "activation/mean of layer.3, steps 256 to 511: its checksum differs",
    ),
    "a chunk that is gone": (
        "DELETE FROM chunk WHERE tier = 1 AND first = 256 AND statistic = 1 AND site_group = 0",
        lambda store: store.series(RUN, "layer.3", "activation/mean"),
        "activation/mean of layer.3, steps 256 to 511: its chunk is missing",
    ),
    "a chunk of other sites": (
        "UPDATE chunk SET site_group = 5 WHERE tier = 1 AND first = 0 AND statistic = 1 AND site_group = 1",
        lambda store: store.series(RUN, "layer.17", "activation/mean"),
        "steps 0 to 255: its chunk is missing",
    ),
    "a span": (
        "UPDATE span SET last_step = last_step + 1 WHERE first = 256",
        lambda store: store.series(RUN, "", "scalar/loss"),
        "steps and times, steps 256 to 512: its checksum differs",
    ),
    "a span that is gone": (
        "DELETE FROM span WHERE first = 256",
        lambda store: store.series(RUN, "layer.3", "activation/mean"),
        "steps 256 to 511: records are missing",
    ),
    "a stream": (
        "UPDATE stream SET part = 5 WHERE subject = 'activation'",
        lambda store: store.metrics(RUN),
        "the sites of activation: its checksum differs",
    ),
    "an event": (
        "UPDATE event SET step = step + 1 WHERE step = 67",
        lambda store: store.events(RUN),
        "an event, step 68: its checksum differs",
    ),
    "an event that is gone": (
        "DELETE FROM event WHERE step = 67",
        lambda store: store.events(RUN),
        "events: 11 of 12 are there",
    ),
    "a finding": (
        "UPDATE finding SET severity = 'error'",
        lambda store: store.findings(RUN),
        "a finding, step 100: its checksum differs",
    ),
    "the run's row": (
        "UPDATE recording SET last_step = 12",
        lambda store: store.find_run(RUN),
        "name, state, times or configuration: its checksum differs",
    ),
    "the counts": (
        "UPDATE ledger SET data = replace(data, '600', '601')",
        lambda store: store.series(RUN, "layer.3", "activation/mean"),
        "the counts of what was recorded: its checksum differs",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_its_run_sites_and_steps(folder: Path, name: str) -> None:
    statement, read, words = DAMAGES[name]
    change(folder, statement)
    with open_store(folder) as store, pytest.raises(StoreDamaged) as raised:
        read(store)
    assert f"run {RUN!r}, rank 0 is damaged" in str(raised.value)
    assert words in str(raised.value)


def test_the_rest_of_a_series_is_right(folder: Path) -> None:
    with open_store(folder) as store:
        whole = store.series(RUN, "layer.3", "activation/mean", limit=10**6)
    change(folder, DAMAGES["a chunk"][0])
    kept = (whole.steps < 256) | (whole.steps >= 512)
    with open_store(folder) as store:
        with pytest.raises(StoreDamaged) as raised:
            store.series(RUN, "layer.3", "activation/mean", limit=10**6)
        rest = raised.value.rest
        other = store.series(RUN, "layer.3", "activation/std", limit=10**6)
    points, told = (
        {(step, repr(value)) for step, value in zip(*pair, strict=True)}
        for pair in ((whole.steps.tolist(), whole.values.tolist()), (rest.steps.tolist(), rest.values.tolist()))
    )
    assert told <= points  # extremes of the damaged stretch come from coarser buckets
    assert set(whole.steps[kept].tolist()) <= set(rest.steps.tolist())
    assert len(other.values) > 500


def test_a_replay_gives_every_intact_record_and_then_raises(folder: Path) -> None:
    change(folder, DAMAGES["a span that is gone"][0].replace("WHERE", "WHERE stream = 2 AND"))
    steps: list[int] = []
    with open_store(folder) as store, pytest.raises(StoreDamaged, match="records are missing"):
        steps.extend(record.step for record in store.replay(RUN))
    assert set(range(256)) | set(range(512, 600)) <= set(steps)


def test_a_store_that_logs_damage_returns_the_rest_and_tells_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(folder, DAMAGES["a chunk"][0])
    with open_store(folder, on_damage="log") as store:
        for _ in range(3):
            assert len(store.series(RUN, "layer.3", "activation/mean").values)
        assert len(store.damage) == 1
    assert sum("its checksum differs" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("kind", ["removed", "changed"])
def test_a_log_that_was_lost_is_missed(tmp_path: Path, kind: str) -> None:
    writer = open_store(tmp_path).begin_run(RUN, run_id=RUN)
    records = walk(100, layout(20))
    writer.write(records[:50])
    copy = tmp_path / "killed"
    copy.mkdir()
    writer.write(records[50:])
    for path in tmp_path.glob(f"{RUN}.*"):
        (copy / path.name).write_bytes(path.read_bytes())
    writer.close()
    log = copy / f"{RUN}.rank0.db-wal"
    if kind == "removed":
        log.unlink()
    else:
        data = bytearray(log.read_bytes())
        data[len(data) - 300_000] ^= 1
        log.write_bytes(data)
    with open_store(copy) as store, pytest.raises(StoreDamaged, match="its log"):
        store.series(RUN, "", "scalar/loss")


def test_a_closed_run_has_no_head(folder: Path) -> None:
    assert not list(folder.glob("*.head"))


def test_a_tensor_that_is_not_that_of_its_name_is_refused(folder: Path) -> None:
    blobs = blobs_of(str(folder), RUN)
    digest = blobs.put(np.arange(1000, dtype=np.float32)).digest
    path = next(blobs.folder.rglob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[-5] ^= 16
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match="not those of its name"):
        blobs.get(digest)
    with open_store(folder) as store:
        assert any("not those of its name" in line for line in store.verify(RUN))


def test_verify_lists_the_damage_and_show_gives_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--store", str(folder)]) == 0
    assert "intact" in capsys.readouterr().out
    change(folder, DAMAGES["a chunk"][0])
    change(folder, DAMAGES["an event that is gone"][0])
    assert main(["verify", RUN, "--store", str(folder)]) == 3
    told = capsys.readouterr().out
    assert "2 damaged" in told
    assert "steps 256 to 511: its checksum differs" in told
    assert "events: 11 of 12 are there" in told
    assert main(["events", RUN, "--store", str(folder)]) == 3
    told = capsys.readouterr()
    assert "step_skipped" in told.out
    assert "is damaged: events" in told.err


def test_damaged_records_are_not_moved_into_chunks_that_would_hide_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        writer = store.begin_run(RUN, run_id=RUN)
        records = walk(300, layout(20))
        writer.write(records[:100])
        change(tmp_path, f"UPDATE hot SET {SPOILED} WHERE step = 0")
        writer.write(records[100:])
        while writer.maintain():
            pass
        writer.close()
        with pytest.raises(StoreDamaged, match="its checksum differs"):
            list(store.replay(RUN))
