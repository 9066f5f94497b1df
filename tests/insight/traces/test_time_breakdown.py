"""Where the time goes: traces whose parts are known, and a slow count of microseconds."""

import numpy as np
import pytest
from mindscope.insight.traces import (
    copies,
    launch_cost,
    operation_times,
    queue_lengths,
    read_traces,
    stream_idle,
    time_breakdown,
    trace_difference,
)

from tests.insight.traces.kineto import document, kernel, launch, note, operation, write


def read(folder, *events):
    return read_traces(write(folder, document(*events)))


def microseconds(seconds):
    return pytest.approx(seconds * 1e6, abs=1e-6)


DEVICE = (
    launch(0.0, 1), launch(5.0, 2), launch(60.0, 3), launch(62.0, 4),
    kernel("gemm", 10.0, 30.0, correlation=1),
    kernel("ncclDevKernel_AllReduce_Sum_f32", 25.0, 35.0, stream=20, correlation=2),
    kernel("gemm", 70.0, 10.0, correlation=3),
    kernel("Memcpy DtoD (Device -> Device)", 82.0, 8.0, correlation=4, category="gpu_memcpy", bytes=8000),
)  # fmt: skip


def test_parts_of_a_device_sum_to_the_span_and_overlap_is_known(tmp_path):
    (trace,) = read(tmp_path, *DEVICE).ranks
    found = time_breakdown(trace)
    assert found.is_device
    parts = (found.compute_s, found.communication_s, found.memory_s, found.idle_s)
    assert [round(part * 1e6, 6) for part in parts] == [40.0, 20.0, 8.0, 12.0]
    assert found.span_s * 1e6 == pytest.approx(sum(parts) * 1e6) == pytest.approx(80.0)
    assert found.overlap == pytest.approx(15.0 / 35.0)


def test_idle_time_has_its_cause(tmp_path):
    (trace,) = read(tmp_path, *DEVICE).ranks
    first, second = stream_idle(trace)
    assert (first.stream, first.kernels) == (7, 3)
    # the second gemm was launched after the first had ended; the copy in time, 2 us after the gemm
    assert [round(gap * 1e6, 6) for gap in (first.host_s, first.kernel_s, first.other_s)] == [30.0, 2.0, 0.0]
    assert second.host_s == second.kernel_s == second.other_s == 0.0


def test_queues_and_launches_are_counted(tmp_path):
    job = read(tmp_path, *DEVICE)
    (trace,) = job.ranks
    queue = queue_lengths(trace)[0]
    # one waits from 0 to 10, one from 60 to 62 and 70 to 82, two from 62 to 70
    assert (queue.most, queue.full_s) == (2, 0.0)
    assert queue.mean == pytest.approx((10 + 2 + 16 + 12) / 82.0)
    cost = launch_cost(trace)
    assert cost.launches == 4
    assert cost.call_s * 1e6 == pytest.approx(5.0)
    assert cost.delay_s * 1e6 == pytest.approx(10.0)  # of 5, 15, 5 and 15 us
    (copy,) = copies(job)
    assert (copy.name, copy.size_bytes, copy.bandwidth) == ("Memcpy DtoD", 8000.0, pytest.approx(1e9))


def test_a_processor_alone_has_operations_loaders_collections_and_python(tmp_path):
    (trace,) = read(
        tmp_path,
        note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0.0, 10.0),
        operation("aten::select", 2.0, 3.0),
        operation("aten::linear", 20.0, 20.0),
        operation("aten::addmm", 25.0, 10.0),
        operation("Python GC", 45.0, 5.0, category="python_function"),
        note("gloo:all_reduce", 35.0, 25.0, thread=2),
    ).ranks
    found = time_breakdown(trace)
    parts = {
        name: getattr(found, f"{name}_s") * 1e6 for name in ("data", "compute", "garbage", "communication", "idle")
    }
    assert parts == pytest.approx({"data": 10.0, "compute": 20.0, "garbage": 5.0, "communication": 15.0, "idle": 10.0})
    rows = {row.name: (row.kind, row.calls) for row in operation_times(trace)}
    assert rows["gloo:all_reduce"] == ("communication", 1)
    assert rows["aten::linear"] == ("compute", 1)
    assert "aten::addmm" not in rows
    assert launch_cost(trace) is None


@pytest.mark.parametrize("seed", range(5))
def test_parts_equal_a_count_of_microseconds(tmp_path, seed):
    draw = np.random.default_rng(seed)
    names = ("gemm", "ncclKernel_AllReduce", "Memset (Device)")
    events, busy = [], {name: np.zeros(500, np.bool_) for name in names}
    for _ in range(40):
        name, start, size = names[draw.integers(3)], int(draw.integers(0, 450)), int(draw.integers(1, 40))
        category = "gpu_memset" if name.startswith("Memset") else "kernel"
        events.append(kernel(name, float(start), float(size), stream=int(draw.integers(5)), category=category))
        busy[name][start : start + size] = True
    (trace,) = read(tmp_path, *events).ranks
    found = time_breakdown(trace)
    compute, communicate, copy = (busy[name] for name in names)
    anything = np.flatnonzero(compute | communicate | copy)
    assert found.span_s * 1e6 == pytest.approx(anything[-1] + 1 - anything[0])
    assert found.compute_s * 1e6 == pytest.approx(compute.sum())
    assert found.communication_s * 1e6 == pytest.approx((communicate & ~compute).sum())
    assert found.memory_s * 1e6 == pytest.approx((copy & ~compute & ~communicate).sum())
    assert found.overlap_s * 1e6 == pytest.approx((compute & communicate).sum())


def test_a_difference_tells_what_came_went_and_grew(tmp_path):
    (before := tmp_path / "before").mkdir()
    (after := tmp_path / "after").mkdir()
    steps = [note(f"ProfilerStep#{number}", 100.0 * number, 100.0) for number in (0, 1)]
    old = read(
        before,
        *steps,
        *(kernel(name, 100.0 * n + 5, 10.0) for n in (0, 1) for name in ("gemm",)),
        kernel("old", 50.0, 4.0),
    )
    new = read(after, *steps, *(kernel("gemm", 100.0 * n + 5, 30.0) for n in (0, 1)), kernel("new", 50.0, 6.0))
    found = trace_difference(old, new)
    rows = [(row.name, row.change, round(row.difference_s * 1e6, 3)) for row in found.operations]
    assert rows == [("gemm", "more", 20.0), ("new", "new", 3.0), ("old", "gone", -2.0)]
    same = trace_difference(old, old)
    assert all(row.difference_s == 0.0 for row in same.operations)
