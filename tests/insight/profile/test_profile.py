"""Where time and memory go: recordings whose profile is known by construction."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight.profile import advise, render_profile, step_split
from mindscope.insight.profile.run_profile import profile
from mindscope.insight.profile.step_split import StepSplit, rank_times
from mindscope.storage import (
    Block,
    Event,
    Layout,
    ModuleInfo,
    ParameterInfo,
    StepRecord,
    Structure,
    open_store,
)

from tests.insight.profile.looked import LOOKED

COMMUNICATION = Layout(
    "communication", ("all_reduce/world",) * 2, ("bytes", "seconds", "wait_seconds"), ("float64",) * 3, (0, 1)
)
PHASES = {"data": 0.05, "forward": 0.01, "backward": 0.02, "optimizer": 0.01}


def record(step, *, phases=PHASES, wait=0.004, memory=None, **options):
    scalars = {"step_seconds": sum(phases.values()) + 0.01}
    if step % 10 == 9:
        scalars |= {f"time/{name}_seconds": seconds for name, seconds in phases.items()}
        scalars["time/communication_seconds"] = 2 * wait
    if memory is not None:
        scalars |= {"memory/host_bytes": memory, "memory/monitor_bytes": memory / 4}
    costs = Block(COMMUNICATION, np.array([[100.0, 2 * wait, wait]] * 2))
    return StepRecord(step, 1000.0 + 0.1 * step, scalars=scalars, blocks=(costs,), **options)


def stored(*ranks, structure=None):
    """A store in memory with one run, whose ranks have these records."""
    store, identity = open_store("memory:"), None
    for rank, records in enumerate(ranks):
        writer = store.begin_run("run", rank=rank, run_id=identity)
        identity = writer.run.id
        writer.write_structure(structure or Structure())
        writer.write(list(records))
        writer.close()
    return store, store.find_run("run")


def test_the_phases_of_a_step_and_what_is_in_none_of_them_add_up_to_it():
    found = profile(*stored(map(record, range(40))))
    (split,) = found.splits
    assert (split.steps, split.step_s) == (40, pytest.approx(0.1))
    assert split.phases == pytest.approx({**PHASES, "other": 0.01})
    assert sum(split.phases.values()) == pytest.approx(split.step_s)
    assert split.share("data") == pytest.approx(0.5)
    assert "of which communication " in render_profile(found)


def test_a_training_that_waits_for_data_is_told_so_with_the_gain_that_is_possible():
    found = profile(*stored(map(record, range(40))))
    assert [item.kind for item in found.advice] == ["data"]
    assert "50% of a step of 100 ms passes before its forward: in the loader, or in what else" in render_profile(found)
    assert "at most 2.00 times as fast" in render_profile(found)


def test_a_balanced_step_gets_no_advice():
    phases = {"data": 0.001, "forward": 0.03, "backward": 0.06, "optimizer": 0.005}
    found = profile(*stored(record(step, phases=phases, wait=0.0) for step in range(40)))
    assert found.advice == ()


def test_collectives_are_counted_call_by_call_of_a_mean_step():
    (cost,) = profile(*stored(map(record, range(20)))).collectives
    assert (cost.site, cost.calls, cost.size_bytes) == ("all_reduce/world", 2.0, 200.0)
    assert (cost.seconds, cost.wait_s) == (pytest.approx(0.016), pytest.approx(0.008))


def test_the_rank_that_works_longer_and_waits_less_is_the_straggler():
    slow = {**PHASES, "data": 0.0, "forward": 0.06}
    quick = {**PHASES, "data": 0.0, "forward": 0.02, "backward": 0.06}
    ranks = [[record(s, phases=quick, wait=0.02) for s in range(20)] for _ in range(3)]
    ranks[1] = [record(s, phases=slow, wait=0.0) for s in range(20)]
    found = profile(*stored(*ranks))
    assert [rank.rank for rank in found.ranks] == [1, 0, 2]
    assert found.ranks[0].slowness == pytest.approx(0.1 / 0.06)
    straggler = next(item for item in found.advice if item.kind == "straggler")
    assert (straggler.rank, "rank 0 waits" in straggler.says) == (1, True)
    assert straggler.share == pytest.approx((0.1 - 0.06) / 0.1)


def split(rank, *, data, backward):
    phases = {"data": data, "forward": 0.01, "backward": backward, "optimizer": 0.01}
    return StepSplit(rank, 40, sum(phases.values()), 0.2, (), phases, {"monitor": 0.001})


def test_who_waits_inside_the_backward_pass_is_not_the_slow_one():
    found = rank_times([split(0, data=0.04, backward=0.02), split(1, data=0.01, backward=0.05)], [])
    assert [(item.rank, item.wait_s) for item in found] == [(0, 0.0), (1, pytest.approx(0.03))]
    assert [item.own_s for item in found] == [pytest.approx(0.08), pytest.approx(0.05)]
    assert found[0].slowness == pytest.approx(1.6)


def test_backward_passes_that_end_apart_are_each_ranks_own_work():
    found = rank_times([split(0, data=0.01, backward=0.02), split(1, data=0.01, backward=0.05)], [])
    assert [(item.rank, item.wait_s) for item in found] == [(1, 0.0), (0, 0.0)]


def test_rows_sum_to_the_usual_step_also_where_those_with_a_split_are_longer():
    def records():
        for step in range(40):
            step_record = record(step)
            fast = {"step_seconds": 0.03} if step % 10 != 9 else {}
            yield replace(step_record, scalars={**step_record.scalars, **fast})

    (found,) = profile(*stored(records())).splits
    assert found.step_s == pytest.approx(0.03)
    assert sum(found.phases.values()) == pytest.approx(found.step_s)
    assert found.phases["data"] / found.phases["forward"] == pytest.approx(PHASES["data"] / PHASES["forward"])
    assert sum(map(found.share, found.phases)) == pytest.approx(1.0)


def test_ranks_that_are_alike_have_no_straggler():
    splits = [StepSplit(rank, 50, 0.1, 0.1, (), {"forward": 0.1 + 0.001 * rank}, {}) for rank in range(4)]
    assert advise(splits, rank_times(splits, ())) == ()


def test_memory_peaks_where_it_was_highest_and_is_named_by_what_follows_from_the_shapes():
    structure = Structure(
        modules=(ModuleInfo("a", "Dense", 0), ModuleInfo("b", "Dense", 1)),
        parameters=(
            ParameterInfo("a.weight", (8, 4), "float32", group=(0, 0), storage=1),
            ParameterInfo("b.weight", (8, 4), "float32", group=(0, 0), storage=1),
            ParameterInfo("b.scale", (10,), "float64", requires_grad=False, storage=2),
        ),
    )
    slot = Layout("optimizer/exp_avg", ("a.weight",), ("l2_norm",), ("float64",))
    sizes = Block(Layout("activation", ("a", "b"), ("size",), ("uint64",)), np.array([[100.0], [300.0]]))

    def at(step):
        made = record(step, memory=1e6 + (5e5 if step == 20 else 0.0))
        return StepRecord(step, made.time, scalars=made.scalars, blocks=(Block(slot, np.ones((1, 1))), sizes))

    (use,) = profile(*stored(map(at, range(30)), structure=structure)).memory
    assert (use.host_peak_bytes, use.peak_step) == (1.5e6, 20)
    assert use.monitor_bytes[20] == 1.5e6 / 4
    assert np.isnan(use.device_peak_bytes)
    parts = {(part.kind, part.site): part.size_bytes for part in use.parts}
    assert parts == {
        ("parameters", ""): 128 + 80,
        ("gradients", ""): 128,
        ("optimizer", ""): 128,
        ("activations", "a"): 400,
        ("activations", "b"): 1200,
    }


def test_operators_are_ranked_by_their_own_time_and_peak_memory_is_attributed_to_their_module():
    looked = [
        record(step, events=(Event("operators", step, data={**LOOKED, "step": step}),) if step < 2 else ())
        for step in range(20)
    ]
    found = profile(*stored(looked))
    assert [(operator.name, operator.calls, operator.share) for operator in found.operators] == [
        ("matmul", 1.0, pytest.approx(2 / 3)),
        ("exp", 1.0, pytest.approx(1 / 3)),
    ]
    (part,) = [part for part in found.memory[0].parts if part.kind == "activations"]
    assert (part.site, part.size_bytes, part.is_measured) == ("head", 1000.0, True)
    assert len(found.profiled) == 2
    assert found.profiled[0].spans[1].site == "head"


@pytest.mark.parametrize("records", [[], [StepRecord(0, 0.0)]], ids=["no step", "a bare step"])
def test_what_was_not_recorded_is_said_and_never_guessed(records):
    found = profile(*stored(records))
    assert len(found.missing) == 4
    assert found.advice == ()
    assert np.isnan(found.splits[0].step_s)
    assert "not recorded" in render_profile(found)


def test_a_rank_that_stopped_early_is_profiled_with_what_it_has():
    found = profile(*stored(map(record, range(40)), map(record, range(5))))
    assert {rank.rank: rank.steps for rank in found.ranks} == {0: 40, 1: 5}
    assert np.isfinite(found.splits[1].step_s)
    assert found.splits[1].phases == {}


def test_a_stretch_of_steps_is_profiled_as_a_run_of_its_own():
    def at(step):
        phases = PHASES if step < 20 else {**PHASES, "data": 0.25}
        look = (Event("operators", step, data={**LOOKED, "step": step}),) if step in (5, 35) else ()
        return record(step, phases=phases, memory=1e6 + step, events=look)

    store, run = stored(map(at, range(40)))
    early, late = profile(store, run, last=19), profile(store, run, first=20)
    assert (early.splits[0].steps, late.splits[0].steps) == (20, 20)
    assert [part.splits[0].phases["data"] for part in (early, late)] == [
        pytest.approx(0.05),
        pytest.approx(0.25),
    ]
    assert [part.splits[0].step_s for part in (early, late)] == [pytest.approx(0.1), pytest.approx(0.3)]
    assert [part.memory[0].peak_step for part in (early, late)] == [19, 39]
    assert [[looked.step for looked in part.profiled] for part in (early, late)] == [[5], [35]]
    assert not profile(store, run, first=10, last=12).operators


def test_the_monitors_share_is_that_of_its_thread_too():
    split = StepSplit(0, 40, 0.1, 0.2, (), {"forward": 0.1}, {"monitor": 0.001}, {"writer": 0.025})
    assert split.monitor_s == pytest.approx(0.026)
    assert split.monitor_share == pytest.approx(0.26)
    assert np.isnan(StepSplit(0, 40, 0.1, 0.2, (), {"forward": 0.1}, {}).monitor_share)


def test_of_a_thinned_run_the_monitors_share_is_that_of_all_its_steps():
    records = [record(step) for step in (*range(20), 59, 99)]  # 0.1 s apart by the clock
    found = profile(*stored([replace(one, scalars={**one.scalars, "time/monitor_seconds": 0.02}) for one in records]))
    (split,) = found.splits
    assert (split.steps, split.passed, split.mean_s) == (22, 100, pytest.approx(0.1))
    assert split.monitor_share == pytest.approx(0.02 * 22 / (0.1 * 100), rel=0.2)
    assert "22 of 100 steps were recorded; all take 100 ms in the mean" in render_profile(found)
    whole = profile(*stored(map(record, range(40)))).splits[0]
    assert not whole.is_thinned


def test_a_long_run_of_which_every_step_was_recorded_is_not_thinned(monkeypatch):
    monkeypatch.setattr(step_split, "_MOST", 10)  # points that are read of a series
    (split,) = profile(*stored(map(record, range(40)))).splits
    assert (split.steps, split.passed, split.is_thinned) == (40, 40, False)
