"""Who it is, since when and what it costs: simulated jobs whose answer is known, and healthy ones."""

import numpy as np
import pytest
from mindscope.insight.stragglers import render_stragglers, stragglers, trace_graph
from mindscope.insight.stragglers.recurrence import recurrence
from mindscope.insight.stragglers.step_graph import Activity, GraphBuilder
from mindscope.insight.traces import read_traces

from benchmarks.traced_jobs import FAULTS, Job, true_cost_s, write_traces

HARD = {
    "slow machine": {"per_host": 3},
    "slow stage": {"stages": 3, "layers": 2},
    "sequence lengths": {"steps": 16},
}


def judged(folder, job):
    write_traces(job, folder)
    return stragglers(trace_graph(read_traces([folder])))


def job_of(fault, **options):
    return Job(fault, **{"target": 1, "ranks": 6, "per_host": 6, "steps": 12, "layers": 3, "seed": 11} | options)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_culprit_is_named_with_its_cost(tmp_path, fault):
    job = job_of(fault, **HARD.get(fault, {}))
    report = judged(tmp_path, job)
    step_s, cost_s = true_cost_s(job)
    assert report.step_s == pytest.approx(step_s, rel=0.01)
    if not job.answers:
        assert report.culprit is None
        assert report.headline.startswith("no straggler")
        return
    assert (report.culprit.kind, report.culprit.name) in job.answers
    assert report.culprit.cost_s == pytest.approx(cost_s, rel=0.25)
    first = render_stragglers(report).splitlines()[0]
    assert f"{report.culprit.cost_s * 1e3:.3g} ms a step" in first
    assert "of a step of" in first


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 1), (0.04, 2), (0.04, 3)])
@pytest.mark.parametrize("has_device", [False, True], ids=["processor", "device"])
def test_healthy_jobs_are_not_accused(tmp_path, noise, seed, has_device):
    report = judged(tmp_path, job_of("healthy", noise=noise, seed=seed, has_device=has_device))
    assert report.culprit is None, report.headline


def test_without_noise_the_cost_is_the_true_one(tmp_path):
    job = job_of("slow rank", noise=0.0)
    report = judged(tmp_path, job)
    assert report.culprit.cost_s == pytest.approx(true_cost_s(job)[1], rel=0.02)
    assert report.ranks[0].share == pytest.approx(1.0, abs=0.01)
    assert report.culprit.doing == "computing"
    assert report.times[0].rank == 1  # waits least


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("slow rank", "persistent"), ("periodic pause of a rank", "periodic"), ("bursts of a rank", "bursty")],
)
def test_how_it_comes_back_is_told(tmp_path, fault, kind):
    job = job_of(fault, steps=20, ranks=4, layers=2)
    found = judged(tmp_path, job).culprit.recurrence
    assert found.kind == kind
    assert found.period == (4.0 if kind == "periodic" else 0.0)


def test_since_when_it_is_slow_is_told(tmp_path):
    culprit = judged(tmp_path, job_of("slow from the middle on", strength=1.5)).culprit
    assert culprit.recurrence.since == 6
    assert culprit.recurrence.kind == "persistent"


def test_two_slow_ranks_are_named_together(tmp_path):
    job = job_of("slow rank", also=4)
    report = judged(tmp_path, job)
    assert set(report.culprit.ranks) == {1, 4}
    assert report.culprit.cost_s == pytest.approx(true_cost_s(job)[1], rel=0.25)


NUMBERS = np.arange(20)


@pytest.mark.parametrize(
    ("lost", "kind", "since", "period"),
    [
        (np.zeros(20), "never", -1, 0.0),
        (np.full(20, 0.5), "persistent", 0, 0.0),
        (np.where(NUMBERS >= 8, 0.3, 0.0), "persistent", 8, 0.0),
        (np.where(NUMBERS % 5 == 2, 0.9, 0.0), "periodic", 2, 5.0),
        (np.where(np.isin(NUMBERS, (2, 3, 9, 15)), 0.9, 0.0), "bursty", 2, 0.0),
        (np.where(NUMBERS == 7, 2.0, 0.0), "once", 7, 0.0),
        (np.where(NUMBERS == 7, 0.01, 0.0), "never", -1, 0.0),
    ],
)
def test_recurrence_of_known_losses(lost, kind, since, period):
    found = recurrence(NUMBERS, lost, 1.0)
    assert (found.kind, found.since, found.period) == (kind, since, period)


OF_A_RANK = [fault for fault, answers in FAULTS.items() if answers and answers[0][0] == "rank"]


@pytest.mark.parametrize("fault", OF_A_RANK)
@pytest.mark.parametrize("target", [0, 1])
def test_of_two_ranks_the_slow_one_is_named(tmp_path, fault, target):
    report = judged(tmp_path, job_of(fault, target=target, ranks=2, per_host=2, steps=16))
    assert report.culprit is not None
    assert (report.culprit.kind, report.culprit.name) == ("rank", str(target))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_two_healthy_ranks_none_is_accused(tmp_path, seed):
    assert judged(tmp_path, job_of("healthy", ranks=2, per_host=2, noise=0.04, seed=seed)).culprit is None


def test_of_two_ranks_the_change_of_its_own_work_is_told(tmp_path):
    job = job_of("slow from the middle on", ranks=2, per_host=2, strength=1.5, steps=16)
    assert "; its own work took" in judged(tmp_path, job).headline
    constant = judged(tmp_path, job_of("slow rank", ranks=2, per_host=2)).headline
    assert "by its own steps it has not changed, so it may have more to do than rank 0, the only peer" in constant


TWO = (0, 1)


def two_ranks(slow, kind=Activity.COMPUTE, more_s=0.006):
    """Return the graph of two ranks whose steps of 10 ms take more where `slow[rank]` says so."""
    builder, begin, before = GraphBuilder(), 0.0, []
    work, exchange = builder.number("forward"), builder.number("exchange")
    for place in range(len(slow[0])):
        own = [0.01 + more_s * slow[rank][place] for rank in TWO]
        members = []
        for rank in TWO:
            at, shared = np.array([begin]), {"rank": rank, "lane": rank, "step": np.array([place])}
            end = at + own[rank]
            node = builder.add(kind=np.array([kind]), name=np.array([work]), start=at, end=end, **shared)
            last = builder.add(
                kind=np.array([Activity.COMMUNICATION]),
                name=np.array([exchange]),
                start=end,
                end=at + max(own) + 1e-3,
                **shared,
            )
            if before:
                builder.edge(np.array(before[rank : rank + 1]), node)
            builder.edge(node, last)
            members.append(int(last[0]))
        builder.join(members)
        begin, before = begin + max(own) + 1e-3, members
    steps = np.arange(len(slow[0]))
    sizes = np.full((2, len(steps)), np.nan)
    return builder.build(ranks=TWO, hosts=("", ""), stages=(-1, -1), steps=steps, begin=0.0, sizes=sizes, missing=())


def test_of_two_ranks_that_take_turns_both_are_told_with_the_reason():
    turns = np.arange(24) % 2
    report = stragglers(two_ranks([turns, 1 - turns]))
    assert report.culprit is None
    assert report.headline.startswith("no straggler, or both ranks: rank 0 costs")
    assert "Of two ranks, no majority tells what is usual" in report.headline


def test_of_two_ranks_one_that_became_faster_makes_the_other_no_slower_than_it_was():
    always, at_first = np.ones(24, int), (np.arange(24) < 12).astype(int)
    report = stragglers(two_ranks([at_first, always]))
    assert report.culprit.name == "1"
    assert "its own work takes what it took before: rank 0 has become faster, from 16 ms" in report.headline


def test_of_two_ranks_the_one_with_the_slower_loader_is_named_though_both_load_for_long():
    report = stragglers(two_ranks([np.zeros(24), np.ones(24)], Activity.DATA, 0.0115))
    assert (report.culprit.kind, report.culprit.name, report.culprit.doing) == ("rank", "1", "data loading")
