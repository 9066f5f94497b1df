import json

import pytest
from mindscope.storage import StepRecord, open_store

from benchmarks.traced_jobs import Job, write_traces


@pytest.fixture
def traces(tmp_path):
    """Traces of four ranks on two machines, of which rank 2 is slow."""
    (folder := tmp_path / "traces").mkdir()
    write_traces(Job("slow rank", target=2, per_host=2, steps=8, layers=2, seed=3), folder, is_packed=True)
    return folder


def test_the_first_line_says_who_drags_since_when_and_what_it_costs(command, traces):
    told = command("trace", traces)
    assert (told.code, told.err) == (0, "")
    first = told.out.splitlines()[0]
    assert first.startswith("rank 2 on node-1: costs")
    assert "ms a step" in first
    assert "from the start" in first
    for part in (
        "time of each rank",
        "operations of rank 0",
        "idle streams",
        "launches",
        "critical path",
        "clocks were",
    ):
        assert part in told.out


def test_one_rank_is_reported_without_stragglers(command, traces):
    told = command("trace", traces / "rank0.json.gz")
    assert told.code == 0
    assert told.out.startswith("trace of 1 rank, steps 0 to 7, simulated")
    assert "1 of the job's 4 ranks were given" in told.out


def test_a_trace_as_json_is_one_document(command, traces):
    document = json.loads(command("trace", traces, "--json").out)
    assert document["ranks"] == [0, 1, 2, 3]
    assert document["stragglers"]["culprit"]["name"] == "2"
    assert document["breakdowns"][0]["compute_s"] > 0.0
    assert sum(part["share"] for part in document["path_by_rank"]) == pytest.approx(1.0)


def test_a_difference_of_traces_names_what_grew(command, traces, tmp_path):
    (before := tmp_path / "before").mkdir()
    write_traces(Job("healthy", per_host=2, steps=8, layers=2, seed=3), before)
    told = command("trace", traces, "--diff", before)
    assert told.code == 0
    assert told.out.startswith("a step takes")
    assert "gemm_backward_1" in told.out
    document = json.loads(command("trace", traces, "--diff", before, "--json").out)
    assert document["operations"][0]["name"] == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"  # the others wait in it
    assert {row["change"] for row in document["operations"]} <= {"more", "less"}


def test_what_is_no_trace_is_wrong_use(command, tmp_path):
    (path := tmp_path / "x.json").write_text("nothing")
    for words in ((path,), (tmp_path / "missing.json",), (tmp_path / "missing.json", "--diff", path)):
        told = command("trace", *words)
        assert (told.code, told.out) == (2, "")
        assert "export_chrome_trace" in told.err


def test_the_stragglers_of_a_run_are_reported(command, tmp_path):
    folder, identity = tmp_path / "runs", None
    with open_store(str(folder)) as store:
        for rank in range(3):
            writer = store.begin_run("job", rank=rank, run_id=identity)
            identity = writer.run.id
            parts = {"data": 0.01, "forward": 0.01 + 0.02 * (rank == 1), "backward": 0.04 - 0.02 * (rank == 1)}
            scalars = {f"time/{name}_seconds": seconds for name, seconds in parts.items()}
            writer.write([StepRecord(step, float(step), scalars=scalars) for step in range(9, 100, 10)])
            writer.close()
    told = command("stragglers", "job", "--store", folder)
    assert told.code == 0
    assert told.out.startswith(
        "rank 1: costs 20 ms a step, 33% of a step of 60 ms, in 100% of the steps from the start"
    )
    document = json.loads(command("stragglers", "--store", folder, "--json").out)
    assert document["culprit"]["cost_s"] == pytest.approx(0.02)
    assert document["source"] == f"run {identity}"


def test_a_run_of_one_rank_is_wrong_use(command, run_folder):
    told = command("stragglers", "digits", "--store", run_folder)
    assert (told.code, told.out) == (2, "")
    assert "has one rank" in told.err
