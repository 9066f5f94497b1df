"""Fuzzes run files: damaged pages, and odd values in the tables of an otherwise sound database."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from mindscope.insight import diagnose
from mindscope.storage import Store, migrate, open_store

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import mutated
from tests.fuzzing.recorded_store import RUN, run_files


def _files(folder: Path) -> list[bytes]:
    return [run_files(folder)[0].read_bytes()]


def _mutated_files(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    if draw.random() < 0.4:
        return mutated(draw, seeds)
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(draw.choice(seeds))
        for _ in range(draw.choice((1, 1, 2))):
            with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                _change_cell(draw, database)
        database.commit()
        return database.serialize()


def _change_cell(draw: random.Random, database: sqlite3.Connection) -> None:
    tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
    table = draw.choice([name for name in tables if database.execute(f"select 1 from {name}").fetchone()])
    columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
    row, column = draw.choice(database.execute(f"select rowid from {table}").fetchall())[0], draw.choice(columns)
    (value,) = database.execute(f"select {column} from {table} where rowid = ?", (row,)).fetchone()
    if draw.random() < 0.1:
        database.execute(f"delete from {table} where rowid = ?", (row,))
        return
    database.execute(f"update {table} set {column} = ? where rowid = ?", (_odd(draw, value), row))


def _odd(draw: random.Random, value: object) -> object:
    if isinstance(value, bytes):
        return mutated(draw, [value])
    if isinstance(value, str) and draw.random() < 0.6:
        return mutated(draw, [value.encode()]).decode("utf-8", "replace")
    return draw.choice(
        (-1, 0, 1, -7, 2, 3, 2**31, 2**63 - 1, -(2**63), 1.5, float("inf"), "", "x", b"", b"\xff", "1e3")
    )


def _read(data: bytes, folder: Path) -> None:
    path = folder / f"{RUN}.rank0.db"
    path.write_bytes(data)
    with open_store(path) as store:
        for run in store.runs():
            for rank in run.ranks:
                _read_rank(store, run.id, rank)
            store.findings(run.id)
            store.outcomes(run.id)
            diagnose(store, run.id)
    migrate(path)


def _read_rank(store: Store, run: str, rank: int) -> None:
    store.structure(run, rank=rank)
    store.former_structures(run, rank=rank)
    for metric in store.metrics(run, rank=rank)[:2]:
        store.matrix(run, metric, rank=rank, limit=16)
    for layout in store.layouts(run, rank=rank):
        store.series(run, layout.sites[0], f"{layout.subject}/{layout.statistics[0]}", rank=rank)
    store.events(run, rank=rank)
    store.histograms(run, "net.0", "activation", rank=rank)
    for _ in store.replay(run, rank=rank):
        pass


RUN_FILE = Reader("run_file", _files, _read, mutate=_mutated_files)
