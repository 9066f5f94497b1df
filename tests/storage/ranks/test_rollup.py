"""The roll-up over the ranks of a run: as records come, or from a store; read back, and with late ranks."""

import secrets
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from mindscope.storage import Block, Layout, StepRecord, StoreDamaged, open_store
from mindscope.storage.ranks.rank_details import OUTLIER
from mindscope.storage.ranks.rank_stack import RankStack, RankStacker, StackedBlock
from mindscope.storage.ranks.rollup_pass import follow_run, roll_up_run
from mindscope.storage.ranks.rollup_reader import has_rollup, read_rollup, rollup_metrics
from mindscope.storage.ranks.rollup_recorder import RollupOptions, RollupRecorder
from mindscope.storage.ranks.topology import read_topology, topology_of_mesh
from mindscope.storage.run_info import ALL_RANKS

RANKS, STEPS, SLOW = 96, 70, 41
SITES = tuple(f"layer.{at}" for at in range(5))
LAYOUT = Layout("activation", SITES, ("l2_norm", "nans"), ("float32", "uint64"))
TOPOLOGY = topology_of_mesh([f"node-{rank // 8}" for rank in range(RANKS)], {"data": 24, "tensor": 4})


@pytest.fixture
def run():
    """An id that no other test has: of PostgreSQL they share a schema."""
    return f"run-{secrets.token_hex(4)}"


def values(step: int) -> np.ndarray:
    """`(sites, statistics, ranks)`; rank 41 is far off at one site from step 30 on."""
    random = np.random.default_rng(step)
    made = np.zeros((5, 2, RANKS))
    made[:, 0] = random.normal(10.0, 0.1, (5, RANKS)).astype(np.float32)
    if step >= 30:
        made[3, 0, SLOW] = 99.0
    return made


def stack(step: int) -> RankStack:
    seconds = np.full(RANKS, 0.5)
    seconds[SLOW] = 0.75
    block = StackedBlock(values(step))
    return RankStack(step, 1.8e9 + step, np.arange(RANKS), {LAYOUT: block}, {"step_seconds": seconds})


def write_ranks(store, run: str) -> None:
    """Write every rank in full, as trainings do."""
    for rank in range(RANKS):
        writer = store.begin_run("wide", run_id=run, rank=rank)
        writer.write([stack(step).record_of(rank) for step in range(STEPS)])
        writer.close()


def check(store, run: str) -> None:
    """Compare the roll-up of the run with the values."""
    spread = read_rollup(store, run, "layer.3", "activation/l2_norm")
    every = np.stack([values(step)[3, 0] for step in range(STEPS)])
    assert spread.steps.tolist() == list(range(STEPS))
    np.testing.assert_array_equal(spread.low, every.min(axis=1))
    np.testing.assert_array_equal(spread.high, every.max(axis=1))
    np.testing.assert_array_equal(spread.low_rank, every.argmin(axis=1))
    np.testing.assert_array_equal(spread.high_rank, every.argmax(axis=1))
    np.testing.assert_allclose(spread.mean, every.mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(spread.median, np.sort(every, axis=1)[:, RANKS // 2])
    assert (spread.count == RANKS).all()
    assert np.isnan(spread.strange_rank).all()


def test_steps_of_all_ranks_come_back_with_who_has_the_extremes(store, run):
    recorder = RollupRecorder(store, run, "wide", TOPOLOGY)
    for step in range(STEPS):
        recorder.add_step(stack(step))
    recorder.close()
    check(store, run)
    found = store.find_run(run)
    assert (found.state, found.last_step) == ("finished", STEPS - 1)
    assert ALL_RANKS not in found.ranks
    assert {0, RANKS - 1, SLOW} <= set(found.ranks)
    assert len(found.ranks) <= 10
    assert store.verify(run) == ()
    assert rollup_metrics(store, run) == ("activation/l2_norm", "activation/nans", "scalar/step_seconds")
    (first, *_), outlier = store.events(run, rank=ALL_RANKS, kind=OUTLIER), SLOW
    assert (first.data["rank"], first.step) == (outlier, 0)  # its steps take longer from the start
    full = store.series(run, "layer.3", "activation/l2_norm", rank=SLOW)
    assert full.values[30:].tolist() == [99.0] * (STEPS - 30)


def test_scalars_are_kept_by_host_and_by_axis_of_the_mesh(store, run):
    recorder = RollupRecorder(store, run, "wide", TOPOLOGY)
    for step in range(10):
        recorder.add_step(stack(step))
    recorder.close()
    by_host = store.matrix(run, "ranks/host/step_seconds.max", rank=ALL_RANKS)
    assert by_host.sites == tuple(f"node-{at}" for at in range(12))
    assert by_host.high.max(axis=1).tolist() == [0.75 if at == SLOW // 8 else 0.5 for at in range(12)]
    by_tensor = store.matrix(run, "ranks/tensor/step_seconds.max_rank", rank=ALL_RANKS)
    assert by_tensor.high[SLOW % 4].tolist() == [SLOW] * 10
    known = read_topology(store, run, (0,))
    assert known.where(SLOW) == f"host node-5, data {SLOW // 4}, tensor {SLOW % 4}"


def test_a_store_of_many_ranks_is_rolled_up_and_goes_on_where_it_stopped(store, run):
    write_ranks(store, run)
    assert not has_rollup(store, run)
    told = []
    done = roll_up_run(store, run, told=lambda at, of: told.append((at, of)))
    assert (done.first, done.last, done.late) == (0, STEPS - 1, 0)
    assert told[-1] == (STEPS - 1, STEPS - 1)
    check(store, run)
    assert store.find_run(run).ranks == tuple(range(RANKS))
    assert roll_up_run(store, run).first == STEPS
    check(store, run)


def test_a_run_is_followed_while_its_ranks_write_and_until_it_has_ended(store, run):
    few, steps = 3, 130
    writers = [store.begin_run("wide", run_id=run, rank=rank) for rank in range(few)]
    stacks = [stack(step) for step in range(steps)]

    def write(first, last):
        for rank, writer in enumerate(writers):
            writer.write([stacks[step].record_of(rank) for step in range(first, last)])

    write(0, 100)
    rolled, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        rolled.append(len(read_rollup(store, run, "layer.3", "activation/l2_norm").steps))
        if len(pauses) == 1:
            write(100, steps)
        elif len(pauses) == 2:
            for writer in writers:
                writer.close()

    done = follow_run(store, run, pause=pause)
    assert rolled == [100 - 64, steps - 64]  # what the writer of a rank may be behind
    assert (done.first, done.last, done.late, done.run.state) == (0, steps - 1, 0, "finished")
    spread = read_rollup(store, run, "layer.3", "activation/l2_norm")
    assert spread.steps.tolist() == list(range(steps))
    assert (spread.count == few).all()


def test_ranks_with_other_sites_are_counted_where_they_are():
    """The stages of a pipeline: each site is that of half of the ranks."""
    stacker = RankStacker()
    for missing in (None, 3):
        records = {}
        for rank in range(4):
            sites = ("a", "b") if rank < 2 else ("c",)
            made = Layout("activation", sites, ("l2_norm",), ("float32",))
            block = Block(made, np.array([[10.0 * rank + at] for at in range(len(sites))]))
            records[rank] = StepRecord(1, 0.0, blocks=(block,), scalars={"loss": 1.0} if rank > 1 else {})
        records.pop(missing, None)
        whole = stacker.stack(records)
        ((layout, stacked),) = whole.blocks.items()
        assert layout.sites == ("a", "b", "c")
        assert stacked.present.sum(axis=1).tolist() == [2, 2, 2 if missing is None else 1]
        assert stacked.values[1, 0, :2].tolist() == [1.0, 11.0]
        assert whole.has_scalar["loss"].tolist() == [rank > 1 for rank in records]
        assert whole.record_of(0).scalars == {}


def test_a_step_waits_for_its_last_rank_and_no_longer_than_its_patience(store, run):
    now = [0.0]
    recorder = RollupRecorder(
        store, run, "wide", replace(TOPOLOGY, ranks=3), RollupOptions(patience_s=2.0), clock=lambda: now[0]
    )
    for rank in range(3):
        recorder.add(rank, StepRecord(0, 1.0, scalars={"loss": float(rank)}))
    assert recorder.last_step == 0
    for rank in range(2):
        recorder.add(rank, StepRecord(1, 2.0, scalars={"loss": float(rank)}))
    recorder.tick()
    assert recorder.last_step == 0
    now[0] = 2.1
    recorder.tick()
    assert recorder.last_step == 1
    recorder.add(2, StepRecord(1, 2.0, scalars={"loss": 2.0}))
    recorder.close()
    assert recorder.late == 1
    spread = read_rollup(store, run, "", "scalar/loss")
    assert spread.count.tolist() == [3.0, 2.0]
    assert spread.high_rank.tolist() == [2.0, 1.0]
    (late,) = store.events(run, rank=ALL_RANKS, kind="rank_records_late")
    assert late.data["count"] == 1


def test_a_step_that_came_out_of_order_is_rolled_up_in_order(store, run):
    recorder = RollupRecorder(store, run, "wide", replace(TOPOLOGY, ranks=2))
    for rank, step in ((0, 0), (0, 1), (1, 1), (1, 0), (0, 2), (1, 2)):
        recorder.add(rank, StepRecord(step, float(step), scalars={"loss": 10.0 * step + rank}))
    recorder.close()
    spread = read_rollup(store, run, "", "scalar/loss")
    assert spread.high.tolist() == [1.0, 11.0, 21.0]
    assert spread.count.tolist() == [2.0] * 3


def test_a_thinned_answer_keeps_the_extremes_over_the_steps(store, run):
    recorder = RollupRecorder(store, run, "wide", replace(TOPOLOGY, ranks=2))
    for step in range(600):
        for rank in range(2):
            recorder.add(rank, StepRecord(step, 0.0, scalars={"loss": 99.0 if step == 333 and rank else 1.0 + rank}))
    recorder.close()
    spread = read_rollup(store, run, "", "scalar/loss", limit=50)
    assert len(spread.steps) <= 50
    assert spread.total == 600
    assert spread.high[spread.steps == 333].tolist() == [99.0]
    assert spread.high_rank[spread.steps == 333].tolist() == [1.0]


def test_a_recorder_goes_on_where_another_was_killed(store, run):
    """The sample was written and the roll-up was not, as between two transactions."""
    first = RollupRecorder(store, run, "wide", TOPOLOGY)
    for step in range(5):
        first.add_step(stack(step))
    first.close()
    ahead = store.begin_run("wide", run_id=run, rank=0)
    ahead.write([stack(5).record_of(0)])
    ahead.close()
    second = RollupRecorder(store, run, "wide", TOPOLOGY)
    assert second.last_step == 4
    for step in range(5, STEPS):
        second.add_step(stack(step))
    second.close()
    check(store, run)
    assert store.series(run, "", "scalar/step_seconds").steps.tolist() == list(range(STEPS))


def test_what_is_written_while_a_spread_is_read_makes_no_hole_in_it(store, run):
    """A step is written between the reading of any two columns."""
    recorder = RollupRecorder(store, run, "wide", TOPOLOGY)
    for step in range(10):
        recorder.add_step(stack(step))
    recorder.flush()

    class Growing:
        """The store, to which each reading adds a step."""

        def series(self, *names, **bounds):
            recorder.add_step(stack(recorder.last_step + 1))
            recorder.flush()
            return store.series(*names, **bounds)

    spread = read_rollup(Growing(), run, "", "scalar/step_seconds")
    assert len(spread.steps) >= 10
    assert (spread.count == RANKS).all()
    assert (spread.high_rank == SLOW).all()
    assert np.isfinite(spread.quantiles).all()
    recorder.close()


def test_damage_of_a_roll_up_is_told_as_such(tmp_path, run):
    with open_store(tmp_path) as store:
        recorder = RollupRecorder(store, run, "wide", TOPOLOGY)
        for step in range(4):
            recorder.add_step(stack(step))
        recorder.close()
    with closing(sqlite3.connect(tmp_path / f"{run}.ranks.db")) as file, file:
        file.execute("UPDATE hot SET data = data || x'00'")
        file.execute("UPDATE chunk SET data = data || x'00'")
    with open_store(tmp_path) as store:
        assert any(line.startswith("the roll-up: ") for line in store.verify(run))
        with pytest.raises(StoreDamaged, match="the roll-up is damaged"):
            read_rollup(store, run, "", "scalar/step_seconds")
