"""Two real processes under DDP make one run of two ranks, unchanged; what one of them does wrong stands in its rank."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindscope.insight.compare import compare
from mindscope.probe.errors import NotWatchable
from mindscope.probe.process_ranks import ProcessRank, agree_on_run, process_rank
from mindscope.storage import open_store
from mindscope.storage.ranks.topology import read_topology

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
]

SCRIPT = Path(__file__).with_name("train_in_ranks.py")
PERTURBED = 5


def trained(folder, store, mode="plain", ranks=2):
    """The losses of every rank of one training in real processes; None of one that died."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(store), str(folder / f"losses{rank}"), str(folder / "meet"), mode],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [process.communicate(timeout=120)[1] for process in processes]
    if mode != "dies":
        assert [process.returncode for process in processes] == [0] * ranks, said
    files = [folder / f"losses{rank}" for rank in range(ranks)]
    return [file.read_text().split("\n") if file.exists() else None for file in files]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same training watched and not, and one whose rank 1 gets a bad batch at one step."""
    folder = tmp_path_factory.mktemp("ranks")
    plain = trained(folder / "a", "-")
    watched = trained(folder / "b", folder / "runs")
    perturbed = trained(folder / "c", folder / "perturbed", "perturbed")
    return folder, plain, watched, perturbed


def test_losses_are_the_same_to_the_bit_in_both_ranks(runs):
    _, plain, watched, _ = runs
    assert watched == plain
    assert plain[0] != plain[1]


def test_both_processes_record_one_run_of_two_ranks(runs):
    folder, *_ = runs
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        assert (run.name, run.ranks, run.state, run.last_step) == ("ranks", (0, 1), "finished", 8)
        losses = [store.series(run.id, "", "scalar/loss", rank=rank).values for rank in (0, 1)]
        assert (losses[0] != losses[1]).all()


def test_each_process_records_where_it_is(runs):
    folder, *_ = runs
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        known = read_topology(store, run.id, run.ranks)
        assert known.ranks == 2
        assert [axis.name for axis in known.axes] == ["host"]
        assert known.axes[0].groups.tolist() == [0, 0]
        assert known.where(1) == f"host {platform.node()}"


@pytest.mark.postgres
def test_both_processes_record_into_one_database(runs, postgres_url, tmp_path):
    _, plain, *_ = runs
    assert trained(tmp_path, postgres_url) == plain
    with open_store(postgres_url) as store:
        run = store.find_run("ranks")
        assert (run.ranks, run.state, run.last_step) == ((0, 1), "finished", 8)
        losses = [store.series(run.id, "", "scalar/loss", rank=rank).values for rank in run.ranks]
        assert len(losses[0]) == len(losses[1]) == 8
        assert (losses[0] != losses[1]).all()


def test_local_gradients_differ_and_reduced_ones_are_their_mean(runs):
    folder, *_ = runs
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        site = "module.0.weight"

        def mean(metric, rank):
            return store.series(run.id, site, metric, rank=rank).values

        local = np.array([mean("gradient/unreduced/mean", rank) for rank in (0, 1)])
        assert (local[0] != local[1]).all()
        for rank in (0, 1):
            np.testing.assert_allclose(mean("gradient/mean", rank), local.mean(0), rtol=1e-5, atol=1e-9)


def test_a_collective_is_recorded_before_and_after_in_both_its_forms(runs):
    folder, *_ = runs
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        before = [store.series(run.id, "all_reduce/world", "communication/before/max", rank=r).values for r in (0, 1)]
        after = [store.series(run.id, "all_reduce/world", "communication/max", rank=r) for r in (0, 1)]
        # synchronous and asynchronous calls; what follows a step belongs to the next one, also behind the last
        assert after[0].steps.tolist() == list(range(1, 9))
        np.testing.assert_allclose(after[0].values, before[0] + before[1], rtol=1e-6)
        np.testing.assert_array_equal(after[0].values, after[1].values)
        assert (store.series(run.id, "all_reduce/world", "communication/bytes").values == 4).all()
        seconds = store.series(run.id, "all_reduce/world", "communication/seconds").values
        waits = store.series(run.id, "all_reduce/world", "communication/wait_seconds").values
        assert (seconds > 0.0).all()
        assert (waits <= seconds).all()
        (event,) = store.events(run.id, kind="collective")[:1]
        assert Path(event.data["file"]).name == SCRIPT.name


def test_a_perturbed_rank_is_seen_in_its_rank_and_after_its_step(runs):
    folder, _, watched, perturbed = runs
    assert [one[:PERTURBED] for one in perturbed] == [one[:PERTURBED] for one in watched]
    with open_store(folder / "runs") as good, open_store(folder / "perturbed") as bad:
        runs_ = good.runs()[0], bad.runs()[0]
        first = compare((good, bad), runs_, (1, 1)).first
        assert (first.step, first.metric) == (PERTURBED, "batch/l2_norm")
        other = compare((good, bad), runs_, (0, 0)).first
        assert other.step == PERTURBED
        assert other.metric.startswith("gradient/")  # rank 0 feels it through the reduced gradient only
        assert not other.metric.startswith("gradient/unreduced")


def test_a_process_alone_and_one_among_unconnected_ones(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert process_rank() == ProcessRank()
    assert agree_on_run(process_rank(), "x", 0.0) is None
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert process_rank() == ProcessRank(3, 8, 1)
    with pytest.raises(NotWatchable, match="process 3 of 8, which are not connected; call watch after"):
        agree_on_run(process_rank(), "x", 0.0)
