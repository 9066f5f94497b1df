"""Stragglers of a watched run: from the phases that its ranks have recorded."""

import pytest
from mindscope.insight.stragglers import NotRecorded, Replay, store_graph, stragglers
from mindscope.storage import StepRecord, open_store

STEP = {"data": 0.002, "forward": 0.010, "backward": 0.025, "optimizer": 0.003}


def record(step, phases, tokens=None):
    """A step; every tenth has its split, as the monitor records it."""
    scalars = {"step_seconds": sum(phases.values())}
    if step % 10 == 9:
        scalars |= {f"time/{name}_seconds": seconds for name, seconds in phases.items()}
        if tokens is not None:
            scalars["throughput/tokens_per_second"] = tokens / sum(phases.values())
    return StepRecord(step, 1000.0 + 0.05 * step, scalars=scalars)


def stored(phases_of, ranks=3, steps=200, tokens=None):
    store, identity = open_store("memory:"), None
    for rank in range(ranks):
        writer = store.begin_run("run", rank=rank, run_id=identity)
        identity = writer.run.id
        writer.write([record(step, phases_of(rank, step), tokens) for step in range(steps)])
        writer.close()
    return store, store.find_run("run")


def waiting_in_backward(slow, phase, more):
    """Rank `slow` takes longer in a phase; the others wait in the backward pass."""

    def phases(rank, step):
        return STEP | ({phase: STEP[phase] + more} if rank == slow else {"backward": STEP["backward"] + more})

    return phases


@pytest.mark.parametrize(
    ("phase", "doing"),
    [("data", "data loading, or other work of the loop before the forward"), ("forward", "computing")],
)
def test_a_rank_that_drags_is_named_with_what_it_does_and_costs(phase, doing):
    graph = store_graph(*stored(waiting_in_backward(2, phase, 0.02)))
    report = stragglers(graph, source="run x")
    assert (report.culprit.kind, report.culprit.name, report.culprit.doing) == ("rank", "2", doing)
    assert report.culprit.cost_s == pytest.approx(0.02, rel=0.02)
    assert report.culprit.recurrence.kind == "persistent"
    assert report.step_s == pytest.approx(sum(STEP.values()) + 0.02)
    assert any("torch.profiler" in line for line in report.missing)


def test_the_replay_of_recorded_phases_gives_the_recorded_steps():
    graph = store_graph(*stored(waiting_in_backward(0, "forward", 0.01)))
    assert Replay(graph).steps_s([graph.duration])[0] == pytest.approx([sum(STEP.values()) + 0.01] * 20)


def test_since_when_is_the_window():
    def phases(rank, step):
        return waiting_in_backward(1, "forward", 0.03)(rank, step) if step >= 100 else STEP

    found = stragglers(store_graph(*stored(phases))).culprit.recurrence
    assert (found.kind, found.since) == ("persistent", 109)


def test_equal_ranks_and_a_slow_first_window_are_not_accused():
    def phases(rank, step):
        return STEP | {"forward": 0.5} if step < 10 else STEP

    assert stragglers(store_graph(*stored(phases))).culprit is None


def test_a_run_of_one_rank_and_one_without_phases_say_what_is_missing():
    with pytest.raises(NotRecorded, match="has one rank"):
        store_graph(*stored(lambda rank, step: STEP, ranks=1))
    with pytest.raises(NotRecorded, match="switch on the subject `time`"):
        store_graph(*stored(lambda rank, step: STEP, steps=5))


def test_tokens_that_explain_the_work_of_a_window_are_named():
    def tokens_of(rank, step):
        return 1000.0 + 300.0 * ((rank + step // 10) % 3)

    def phases(rank, step):
        longest = max(tokens_of(other, step) for other in range(3))
        own, rest = tokens_of(rank, step), longest - tokens_of(rank, step)
        return {"data": 1e-3, "forward": 1e-5 * own, "backward": 2e-5 * own + 3e-5 * rest, "optimizer": 1e-3}

    store, identity = open_store("memory:"), None
    for rank in range(3):
        writer = store.begin_run("run", rank=rank, run_id=identity)
        identity = writer.run.id
        writer.write([record(step, phases(rank, step), tokens_of(rank, step)) for step in range(200)])
        writer.close()
    report = stragglers(store_graph(store, store.find_run("run")))
    assert (report.culprit.kind, report.culprit.name) == ("cause", "sequence lengths")
    # of the backward pass, in which ranks wait, the phases do not tell how long the work was
    assert report.culprit.cost_s == pytest.approx(1e-5 * 300.0, rel=0.05)


def test_one_evaluation_between_steps_is_a_pause_and_no_straggler():
    def phases(rank, step):
        if step != 19:  # of the window of steps 10 to 19, whose mean holds a tenth of 14 s
            return STEP
        return STEP | ({"data": STEP["data"] + 1.4} if rank == 0 else {"backward": STEP["backward"] + 1.4})

    report = stragglers(store_graph(*stored(phases)))
    assert report.headline.startswith("no straggler, but one pause: rank 0 cost 14 s between steps 9 and 19, on data")


def test_what_all_ranks_spend_alike_is_told_and_not_called_a_straggler():
    report = stragglers(store_graph(*stored(lambda rank, step: STEP | {"data": 0.04})))
    assert report.headline.startswith("no straggler: no rank stands out; data loading, or other work of the loop")
