"""What is worked out for many records at once is what each of them shows alone, bit for bit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight import RULES
from mindscope.insight.context.record_burst import Burst
from mindscope.insight.context.subject_table import SubjectRows
from mindscope.insight.engine import Engine
from mindscope.insight.running_statistics import median, medians
from mindscope.storage import Block, Finding, Layout, StepRecord

STATISTICS = ("l2_norm", "mean", "std", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size")
CASES = [
    (rule.name, at, recording)
    for rule in RULES.values()
    for at, recording in enumerate((*rule.fires_on, *rule.silent_on))
]


def stacked(recording) -> list[StepRecord]:
    """The records of a recording with one layout a subject, as a monitor makes them."""
    known: dict[Layout, Layout] = {}
    return [
        replace(
            record,
            blocks=tuple(
                replace(block, layout=known.setdefault(block.layout, block.layout)) for block in record.blocks
            ),
        )
        for record in recording.records()
    ]


def findings(recording, records: Sequence[StepRecord], size: int) -> list[tuple[Finding, ...]]:
    engine = Engine(RULES, config=recording.config)
    engine.learn_structure(recording.structure)
    found = []
    for begin in range(0, len(records), size):
        few = records[begin : begin + size]
        if size > 1:
            engine.foresee(few)
        found += [engine.observe(record) for record in few]
    return found


@pytest.mark.parametrize(("name", "at", "recording"), CASES, ids=[f"{name}-{at}" for name, at, _ in CASES])
def test_bursts_of_any_size_give_the_findings_of_single_records(name, at, recording):
    records = stacked(recording)
    alone = findings(recording, records, 1)
    for size in (2, 7, 64):
        assert repr(findings(recording, records, size)) == repr(alone)


def blocks(layout: Layout, count: int, seed: int) -> list[Block]:
    random = np.random.default_rng(seed)
    shape = (len(layout.sites), len(STATISTICS))
    return [Block(layout, random.normal(size=shape) * 10.0 ** random.integers(-9, 9, shape)) for _ in range(count)]


@pytest.mark.parametrize("sites", [1, 2, 3, 7, 8, 9, 31, 128, 129, 200, 512])
def test_numbers_of_a_table_are_the_same_alone_and_in_a_burst(sites):
    layout = Layout("weight", tuple(f"layer.{at}" for at in range(sites)), STATISTICS, ("float64",) * 10)
    made = blocks(layout, 9, sites)
    made[3].values[sites // 2, 1:4] = np.nan
    for table in made:
        table.values[:, 6:9] = 0.0
    made[5].values[0, 7] = 2.0
    burst, rows = Burst([StepRecord(at, 0.0, blocks=(table,)) for at, table in enumerate(made)]), SubjectRows(layout)
    for at, table in enumerate(made):
        together, alone = rows.table([table], burst, at), rows.table([table])
        assert together.stacked is not None
        assert alone.stacked is None
        for name in ("norm", "holds_non_finite", "largest_of_all"):
            assert repr(getattr(together, name)) == repr(getattr(alone, name)), name
        assert repr(together.low("mean")) == repr(alone.low("mean"))
        assert together.largest().tobytes() == alone.largest().tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17])
def test_medians_of_rows_are_those_of_each_row(count):
    values = np.random.default_rng(count).normal(size=(20, count)).round(1)
    assert medians(values) == [median(row) for row in values]


def test_a_layout_of_many_sites_is_looked_at_record_by_record():
    layout = Layout("weight", tuple(f"layer.{at}" for at in range(513)), STATISTICS, ("float64",) * 10)
    made = blocks(layout, 2, 0)
    burst = Burst([StepRecord(at, 0.0, blocks=(table,)) for at, table in enumerate(made)])
    assert SubjectRows(layout).table([made[0]], burst, 0).stacked is None


def test_records_that_differ_are_looked_at_one_by_one():
    layout = Layout("weight", ("a", "b"), STATISTICS, ("float64",) * 10)
    other = replace(layout, sites=("a", "c"))
    first, second = blocks(layout, 1, 0)[0], blocks(other, 1, 0)[0]
    missing = replace(first, present=np.array([True, False]))
    for few in ([(first,), (second,)], [(first,), (missing,)], [(first,), ()], [(first, first), ()]):
        burst = Burst([StepRecord(at, 0.0, blocks=made) for at, made in enumerate(few)])
        assert SubjectRows(layout).table([first], burst, 0).stacked is None


def test_a_record_that_shows_other_blocks_than_foreseen_is_none_of_the_burst():
    layout = Layout("weight", ("a",), STATISTICS, ("float64",) * 10)
    records = [StepRecord(at, 0.0, blocks=(block,)) for at, block in enumerate(blocks(layout, 3, 0))]
    burst = Burst(records)
    assert [burst.index(record) for record in records] == [0, 1, 2]
    assert burst.index(replace(records[1], skipped=True)) == 1
    assert burst.index(replace(records[1], blocks=(*records[1].blocks,) * 2)) == -1
    assert Burst(records[:1]).index(records[0]) == -1


@pytest.mark.parametrize(("sites", "expected"), [(2, 3), (513, 0)])
def test_a_lookahead_ends_before_a_record_that_is_skipped(sites, expected):
    layout = Layout("weight", tuple(f"layer.{at}" for at in range(sites)), STATISTICS, ("float64",) * 10)
    made = [StepRecord(at, 0.0, skipped=at == 3, blocks=(block,)) for at, block in enumerate(blocks(layout, 5, 0))]
    assert len(Burst(made).lookahead(made[0])) == expected
    assert Burst(made).lookahead(replace(made[0])) == ()
