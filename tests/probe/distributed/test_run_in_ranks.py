"""`mindscope run` records the ranks of one training as one run, whoever has launched or spawned them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mindscope.probe import process_ranks
from mindscope.probe.process_ranks import ProcessRank, join_run, process_rank
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
]

SCRIPT = Path(__file__).with_name("run_in_ranks.py")
LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS"),
    "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "mpich": ("PMI_RANK", "PMI_SIZE"),
    "mvapich": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
}


def launch(folder, *words, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "mindscope", "run", "--store", "runs", "--name", "ranks", "--", str(SCRIPT), *words],
        cwd=folder, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(*processes):
    return [(process.communicate(timeout=120)[1], process.returncode) for process in processes]


def the_run(folder):
    (run,) = open_store(folder / "runs").runs()
    return run


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_ranks_that_a_script_starts_are_one_run(tmp_path, how):
    ((told, code),) = ended(launch(tmp_path, how, str(tmp_path / "meet")))
    assert code == 0, told
    run = the_run(tmp_path)
    assert (run.name, run.state, run.ranks, run.last_step) == ("ranks", "finished", (0, 1), 4)
    assert f"mindscope: {run.id}: " in told
    assert "nothing was recorded" not in told


@pytest.mark.parametrize("is_averaged", [True, False])
def test_gradients_that_a_script_averages_itself_are_compared_as_they_are_used(tmp_path, is_averaged):
    words = () if is_averaged else ("fails",)
    ((told, code),) = ended(launch(tmp_path, "averaged", str(tmp_path / "meet"), *words))
    assert code == 0, told
    store = open_store(tmp_path / "runs")
    equal = {}
    for event in store.events(the_run(tmp_path).id, kind="rank_checksums"):
        equal.setdefault(event.data["quantity"], set()).add(event.data["is_equal"])
    assert equal["gradients"] == {is_averaged}
    assert ("rank_desync" in {one.cause for one in store.findings(the_run(tmp_path).id)}) != is_averaged


def test_a_spawned_rank_that_fails_says_why(tmp_path):
    ((told, code),) = ended(launch(tmp_path, "spawn", str(tmp_path / "meet"), "fails"))
    assert code == 1
    run = the_run(tmp_path)
    assert (run.state, run.error) == ("failed", "ValueError: rank one has had enough")
    (event,) = open_store(tmp_path / "runs").events(run.id, rank=1, kind="exception")
    assert event.data["code"] == 'raise ValueError("rank one has had enough")'
    assert "program_error" in told


def test_launched_ranks_are_one_run_and_rank_0_reports_it(tmp_path):
    told = ended(*[launch(tmp_path, "launched", str(tmp_path / "meet"), str(rank)) for rank in (0, 1)])
    assert [code for _, code in told] == [0, 0], told
    run = the_run(tmp_path)
    assert (run.state, run.ranks) == ("finished", (0, 1))
    assert [f"run {run.id} is recorded" in words for words, _ in told] == [True, False]


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_ranks_that_never_connect_are_one_run_of_their_launch(tmp_path, launcher):
    rank, size = LAUNCHERS[launcher]
    told = ended(*[launch(tmp_path, "apart", "-", **{rank: str(at), size: "2"}) for at in (0, 1)])
    assert [code for _, code in told] == [0, 0], told
    assert the_run(tmp_path).ranks == (0, 1)


@pytest.fixture
def launched(monkeypatch):
    for names in (*process_ranks._ENVIRONMENT, *process_ranks._LAUNCHES):
        for name in names:
            monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("rank", "size"), LAUNCHERS.values(), ids=LAUNCHERS)
def test_a_launcher_tells_the_rank(launched, rank, size):
    launched.setenv(rank, "3")
    launched.setenv(size, "4")
    assert process_rank() == ProcessRank(3, 4)


def test_one_process_joins_nobody(launched):
    assert join_run(ProcessRank(), "digits", 0.0) is None


def test_ranks_of_one_launch_agree_and_those_of_another_do_not(launched):
    ids = {join_run(ProcessRank(rank, 2), "My Run", 0.0) for rank in (0, 1)}
    assert len(ids) == 1
    launched.setenv("TORCHELASTIC_RUN_ID", "none")
    assert {join_run(ProcessRank(0, 2), "My Run", 0.0)} == ids
    launched.setenv("SLURM_JOB_ID", "17")
    first = join_run(ProcessRank(0, 2), "My Run", 0.0)
    launched.setenv("SLURM_STEP_ID", "1")
    second = join_run(ProcessRank(1, 2), "My Run", 0.0)
    assert len({*ids, first, second}) == 3
    assert first.startswith("launch-my-run-")


def test_a_launcher_that_is_watched_itself_is_told_to_launch_the_watched(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "mindscope", "run", "--store", "runs", "--", "-m", "torch.distributed.run", "--help"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ((told, code),) = ended(process)
    assert code == 0
    assert "`torchrun ... -m mindscope run -- train.py`; nothing was recorded" in told
