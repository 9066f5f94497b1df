"""The traces of a job are put on one clock, and their collectives are found to be the same."""

import pytest
from mindscope.insight.errors import UnreadableTrace
from mindscope.insight.traces.collective_calls import operation_name
from mindscope.insight.traces.job_trace import read_traces

from tests.insight.traces.kineto import document, kernel, note, operation, write


def reductions(shift, begins, *, until=100.0):
    return [
        note("gloo:all_reduce", shift + begin + 200.0 * n, until - begin, thread=2) for n, begin in enumerate(begins)
    ]


@pytest.mark.parametrize("shift", [0.0, 5000.0, -12345.0])
def test_clocks_of_two_machines_are_joined_by_the_ends_of_their_collectives(tmp_path, shift):
    one = document(*reductions(0.0, (10.0, 60.0, 90.0)), rank=0, ranks=2, host="a")
    other = document(*reductions(shift, (80.0, 20.0, 30.0)), rank=1, ranks=2, host="b")
    job = read_traces(write(tmp_path, one, other))
    assert job.clock_shift_s[1] * 1e6 == pytest.approx(-shift, abs=1e-3)
    assert len(job.joined) == 3
    for entry in job.joined:
        ends = [job.ranks[call.rank].end[call.index] for call in entry.calls]
        assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_one_machine_has_one_clock_whatever_its_collectives_say(tmp_path):
    one = document(*reductions(0.0, (10.0, 60.0)), rank=0, ranks=2)
    other = document(*reductions(0.0, (30.0, 20.0), until=150.0), rank=1, ranks=2)
    assert read_traces(write(tmp_path, one, other)).clock_shift_s == (0.0, 0.0)


def test_groups_that_a_trace_does_not_name_are_those_whose_calls_are_under_way_together(tmp_path):
    groups = [("0", "default", [0, 1, 2, 3]), ("1", "dp", [0, 1]), ("2", "dp", [2, 3])]
    documents = [
        document(*[note("gloo:all_reduce", 1000.0 * (rank // 2) + 100.0 * n, 50.0, thread=2) for n in range(4)],
                 operation("aten::mm", 0.0, 1.0), rank=rank, ranks=4, groups=groups)
        for rank in range(4)
    ]  # fmt: skip
    job = read_traces(write(tmp_path, *documents))
    members = sorted({tuple(call.rank for call in entry.calls) for entry in job.joined})
    assert members == [(0, 1), (2, 3)]
    assert len(job.joined) == 8


def test_sends_meet_their_receives(tmp_path):
    def message(word, start, **peer):
        return kernel("ncclDevKernel_SendRecv", start, 10.0, **{"Collective name": word}, **peer)

    documents = [
        document(message("send", 0.0, **{"Dst Rank": 1}), message("send", 50.0, **{"Dst Rank": 1}), rank=0, ranks=2),
        document(message("recv", 1.0, **{"Src Rank": 0}), message("recv", 52.0, **{"Src Rank": 0}), rank=1, ranks=2),
    ]
    job = read_traces(write(tmp_path, *documents))
    assert [(entry.operation, [call.rank for call in entry.calls]) for entry in job.joined] == [("send", [0, 1])] * 2


def test_steps_are_those_of_the_profiler_or_of_the_optimizer_or_one(tmp_path):
    marked = document(note("ProfilerStep#7", 0.0, 10.0), note("ProfilerStep#8", 10.0, 10.0))
    stepped = document(operation("a", 0.0, 1.0), *[note("Optimizer.step#SGD.step", 10.0 * n, 2.0) for n in (1, 2, 3)])
    plain = document(operation("a", 0.0, 1.0))
    for made, steps, source in (
        (marked, (7, 8), "ProfilerStep"),
        (stepped, (0, 1, 2), "Optimizer.step"),
        (plain, (0,), ""),
    ):
        job = read_traces(write(tmp_path, made))
        assert (job.steps, job.ranks[0].steps.source) == (steps, source)
    assert any("no step is marked" in line for line in job.notes)


def test_ranks_come_from_the_files_or_their_names_and_are_never_two(tmp_path):
    event = operation("a", 0.0, 1.0)
    job = read_traces(write(tmp_path, document(event, rank=3, ranks=5), document(event, rank=1, ranks=5)))
    assert [trace.rank for trace in job.ranks] == [1, 3]
    assert "2 of the job's 5 ranks were given" in job.notes[0]
    by_name = read_traces(write(tmp_path, document(event, rank=-1), document(event, rank=-1)))
    assert [trace.rank for trace in by_name.ranks] == [0, 1]
    (path,) = write(tmp_path, document(event, rank=0))
    with pytest.raises(UnreadableTrace, match="are all of rank 0"):
        read_traces([path, path])
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableTrace, match="there is no trace"):
        read_traces([empty])


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("gloo:all_reduce", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("c10d::_allgather_base_", "all_gather"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
    ],
)
def test_a_collective_has_its_plain_name(name, word):
    assert operation_name(name) == word
