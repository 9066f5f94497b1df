"""Real processes compare themselves without a collective: what one of them does wrong is a fact of the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")

SCRIPT = Path(__file__).with_name("train_apart.py")
FAULTY = 5


def trained(folder, store, wrong, ranks=2):
    """The losses of every rank of one training in real processes."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(store), str(folder / f"losses{rank}"), str(folder / "meet"), wrong],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, said
    return [(folder / f"losses{rank}").read_text() for rank in range(ranks)]


def events(folder, kind, **wanted):
    """The data of the events of a kind, with these fields."""
    with open_store(folder) as store:
        found = [dict(event.data) for event in store.events(store.runs()[0].id, kind=kind)]
        assert not store.events(store.runs()[0].id, kind="monitor_fault")
    return [data for data in found if all(data[name] == value for name, value in wanted.items())]


@pytest.mark.parametrize("wrong", ["ddp with a bit", "ddp with a bit, away"])
def test_a_flipped_bit_is_found_in_its_tensor_and_losses_are_untouched(tmp_path, wrong):
    watched = trained(tmp_path / "a", tmp_path / "runs", wrong)
    assert watched == trained(tmp_path / "b", "-", wrong)
    parameters = {data["at"]: data for data in events(tmp_path / "runs", "rank_checksums", quantity="parameters")}
    assert [at // 4 for at in parameters] == list(range(6))  # one step in every four, at a drawn place
    assert [at for at, data in parameters.items() if data["is_equal"]] == [at for at in parameters if at < FAULTY]
    first = next(data for at, data in parameters.items() if at > FAULTY)
    assert first["sites"] == ["module.3.weight"]
    assert first["wrote"] == [0.0, float("away" not in wrong)]  # a device sees writes through `.data` alone
    reductions = events(tmp_path / "runs", "rank_reduction")
    assert min(data["clip"] for data in reductions) < 1.0  # what DDP has reduced, and was clipped, is still a mean
    for data in reductions:
        assert data["weights"] == pytest.approx([0.5, 0.5], rel=1e-3)
    assert all(data["is_equal"] for data in events(tmp_path / "runs", "rank_checksums", quantity="gradients"))
    assert not any(data["is_equal"] for data in events(tmp_path / "runs", "rank_checksums", quantity="batch"))
    times = events(tmp_path / "runs", "rank_times")[-1]
    assert all(seconds > 0.0 for name in ("forward", "backward") for seconds in times[name])
