"""A replay equals a slow walk over the graph; measured durations give the measured steps; less work is never slower."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from mindscope.insight.stragglers import Replay, critical_path, step_timeline, trace_graph
from mindscope.insight.traces import read_traces

from benchmarks.traced_jobs import Job, write_traces


def slow_replay(graph, durations):
    """Walk the graph node by node."""
    end = np.zeros(len(durations))
    node = 0
    while node < len(durations):
        members = [node]
        while (
            graph.join[node] >= 0
            and members[-1] + 1 < len(durations)
            and graph.join[members[-1] + 1] == graph.join[node]
        ):
            members.append(members[-1] + 1)
        ready = []
        for member in members:
            before = graph.before[graph.first[member] : graph.first[member + 1]]
            ready.append(max(end[before]) + graph.lag[member] if len(before) else graph.arrival[member])
        for member in members:
            end[member] = max(ready) + durations[member]
        node = members[-1] + 1
    ends = [graph.begin]
    for step in range(len(graph.steps)):
        ends.append(max([ends[-1], *end[graph.step == step]]))
    return np.diff(ends)


JOBS = {
    "processor": Job("sequence lengths", ranks=3, per_host=3, steps=4, layers=2, has_device=False, seed=5),
    "device": Job("slow rank", ranks=3, per_host=2, steps=4, layers=2, seed=6),
    "pipeline": Job("slow stage", ranks=4, stages=2, steps=4, layers=2, seed=7),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    made = {}
    for name, job in JOBS.items():
        folder = tmp_path_factory.mktemp(name)
        write_traces(job, folder)
        made[name] = trace_graph(read_traces([folder]))
    return made


def measured_steps(graph):
    ends = [
        graph.begin,
        *(graph.end[(graph.step >= 0) & (graph.step <= step)].max() for step in range(len(graph.steps))),
    ]
    return np.diff(ends)


@pytest.mark.parametrize("name", JOBS)
def test_measured_durations_give_the_measured_steps(graphs, name):
    graph = graphs[name]
    assert (graph.join >= 0).any()
    np.testing.assert_allclose(Replay(graph).steps_s([graph.duration])[0], measured_steps(graph), rtol=1e-9)


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_replay_equals_a_slow_walk(graphs, name, seed):
    graph = graphs[name]
    factors = np.random.default_rng(seed).uniform(0.0, 1.5, (2, len(graph.duration)))
    found = Replay(graph).steps_s([graph.duration * factor for factor in factors])
    for steps, factor in zip(found, factors, strict=True):
        np.testing.assert_allclose(steps, slow_replay(graph, graph.duration * factor), rtol=1e-9)


@settings(max_examples=15)
@given(name=st.sampled_from([*JOBS]), seed=st.integers(0, 1000), share=st.floats(0.0, 1.0))
def test_more_that_is_ideal_never_makes_the_job_longer(graphs, name, seed, share):
    graph = graphs[name]
    draw = np.random.default_rng(seed)
    less = np.where(draw.random(len(graph.duration)) < share, draw.random(len(graph.duration)), 1.0)
    still_less = np.where(draw.random(len(graph.duration)) < share, 0.0, less)
    ends = np.cumsum(
        Replay(graph).steps_s([graph.duration, graph.duration * less, graph.duration * still_less]), axis=1
    )
    assert (ends[1] <= ends[0] + 1e-12).all()
    assert (ends[2] <= ends[1] + 1e-12).all()


@pytest.mark.parametrize("name", JOBS)
def test_a_critical_path_sums_to_its_step_and_has_no_hole(graphs, name):
    graph = graphs[name]
    for place, step_s in enumerate(measured_steps(graph)):
        path = critical_path(graph, place)
        assert sum(piece.seconds for piece in path.pieces) == pytest.approx(step_s, rel=1e-9)
        ends = [piece.start_s + piece.seconds for piece in path.pieces]
        assert [piece.start_s for piece in path.pieces[1:]] == pytest.approx(ends[:-1], abs=1e-9)


@pytest.mark.parametrize("name", JOBS)
def test_a_timeline_has_the_work_and_the_waiting_of_its_step(graphs, name):
    graph = graphs[name]
    bars = step_timeline(graph, 2)
    here = graph.step == 2
    waiting = sum(bar.seconds for bar in bars if bar.kind == "waiting")
    assert waiting == pytest.approx(graph.wait[here].sum(), rel=0.02)
    assert {bar.rank for bar in bars} == set(graph.ranks)
    for bar in bars:
        assert (bar.waits_for in graph.ranks) is (bar.kind == "waiting")
        assert bar.waits_for != bar.rank
