"""What a run ends with is made small, and taken apart again when the run goes on."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import MemoryStore, Store, open_store

from tests.storage.samples import bits, layout, walk

RUN = "compact"


def count(folder: Path, table: str) -> int:
    connection = sqlite3.connect(folder / f"{RUN}.rank0.db")
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


def append(store: Store, records: list) -> None:
    writer = store.begin_run(RUN, run_id=RUN)
    for at in range(0, len(records), 50):
        writer.write(records[at : at + 50])
        while writer.maintain():
            pass
    writer.close()


@pytest.mark.parametrize("pieces", [(300,), (100, 200, 290), (256, 30, 40), (5, 300)], ids=str)
def test_a_run_that_ends_and_goes_on_reads_as_one_that_never_ended(tmp_path: Path, pieces: tuple[int, ...]) -> None:
    records = walk(sum(pieces), layout(18), layout(3, "gradient"))
    memory = MemoryStore()
    append(memory, records)
    with open_store(tmp_path) as store:
        for at, size in enumerate(pieces):
            append(store, records[sum(pieces[:at]) :][:size])
        assert [bits(one) for one in store.replay(RUN)] == [bits(one) for one in memory.replay(RUN)]
        for limit in (20, 1000):
            ours, theirs = (one.matrix(RUN, "activation/mean", limit=limit) for one in (store, memory))
            assert np.nanmax(ours.high) == np.nanmax(theirs.high)
            assert ours.present.sum() == theirs.present.sum()


def test_an_ended_run_has_nothing_left_as_it_came(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        append(store, walk(300, layout(18)))
    assert count(tmp_path, "hot") == 0
    assert count(tmp_path, "span") == 2 * 4  # activations, steps, and two streams of scalars


def test_a_few_records_stay_as_they_came(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        append(store, walk(5, layout(18)))
    assert count(tmp_path, "hot") == 3  # they were written together
    assert count(tmp_path, "chunk") == 0
