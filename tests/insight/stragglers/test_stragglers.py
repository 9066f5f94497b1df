"""Who it is, since when and what it costs: simulated jobs whose answer is known, and healthy ones."""

import numpy as np
import pytest
from mindscope.insight.stragglers import render_stragglers, stragglers, trace_graph
from mindscope.insight.stragglers.recurrence import recurrence
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
