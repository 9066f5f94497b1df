"""The newest records of a stream read the same however many of them were written together."""

import sqlite3
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from mindscope.storage import MemoryStore, Store, StoreDamaged, StoreError, open_store

from tests.storage.samples import bits, layout, walk

RUN = "hot"
#: A row holds at most 64.
SIZES = {"one by one": (1,) * 30, "in bursts": (1, 7, 3, 19), "at once": (30,), "more than a row": (2, 170, 4)}


def micro_steps(count: int) -> list:
    """Records of three micro-steps a step, so that a step may begin in one row and end in the next."""
    made = walk(count, layout(5), layout(3, "gradient"))
    return [replace(one, step=at // 3 * 2, micro_step=at % 3, events=()) for at, one in enumerate(made)]


def write(store: Store, records: list, sizes: tuple[int, ...]) -> None:
    writer = store.begin_run(RUN, run_id=RUN)
    for begin, end in pairwise([0, *np.cumsum(sizes).tolist()]):
        writer.write(records[begin:end])
    while writer.maintain():
        pass


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_every_range_of_steps_reads_as_in_memory(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    records, memory = micro_steps(sum(sizes)), MemoryStore()
    write(memory, records, sizes)
    with open_store(tmp_path) as store:
        write(store, records, sizes)
        for first, last in product((None, 0, 3, 4, 12), (None, 0, 3, 5, 19)):
            between = {"first": first, "last": last}
            assert [bits(one) for one in store.replay(RUN, **between)] == [
                bits(one) for one in memory.replay(RUN, **between)
            ]
            ours, theirs = (one.series(RUN, "layer.1", "gradient/mean", **between) for one in (store, memory))
            assert bits(ours) == bits(theirs)


def test_a_row_of_which_a_part_is_compacted_keeps_the_rest(tmp_path: Path) -> None:
    records, memory = walk(300, layout(5)), MemoryStore()
    write(memory, records, (100, 100, 100))
    with open_store(tmp_path) as store:
        write(store, records, (100, 100, 100))
        assert [bits(one) for one in store.replay(RUN)] == [bits(one) for one in memory.replay(RUN)]
    connection = sqlite3.connect(tmp_path / f"{RUN}.rank0.db")
    query = "SELECT step FROM hot JOIN stream ON stream.id = hot.stream WHERE subject = 'activation'"
    assert connection.execute(query).fetchall() == [(256,), (264,)]
    connection.close()


@pytest.mark.parametrize("cut", ["X'05'", "X'05000000'", "substr(data, 1, 200)", "data || X'00'"])
def test_a_row_that_lost_bytes_is_said_to_be_damaged(tmp_path: Path, cut: str) -> None:
    with open_store(tmp_path) as store:
        write(store, walk(20, layout(5)), (20,))
        connection = sqlite3.connect(tmp_path / f"{RUN}.rank0.db")
        connection.execute(f"UPDATE hot SET data = {cut}")
        connection.commit()
        connection.close()
        with pytest.raises(StoreDamaged, match=r"its (row is shorter than its header says|checksum differs)"):
            store.series(RUN, "layer.1", "activation/mean")


def test_a_record_that_goes_back_writes_nothing_of_its_burst(tmp_path: Path) -> None:
    records = walk(10, layout(5))
    with open_store(tmp_path) as store:
        writer = store.begin_run(RUN, run_id=RUN)
        writer.write(records[:4])
        with pytest.raises(StoreError, match="to go back in time"):
            writer.write([records[5], records[4]])
        assert [one.step for one in store.replay(RUN)] == [0, 1, 2, 3]
