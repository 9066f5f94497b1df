"""Ranks that hold parts of one model are compared with replicas: a healthy mesh is silent, a wrong bit is found."""

import pytest
from mindscope import diagnose
from mindscope.storage import open_store

from tests.probe.distributed.processes import run_in_ranks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")

OF_RANKS = {
    "identical_rank_data",
    "rank_desync",
    "rank_dropped",
    "rank_rng_error",
    "reduce_scale",
    "silent_data_corruption",
    "stale_weights",
}


def test_a_wrong_bit_in_a_part_is_found_on_its_rank_and_nothing_else_is_said(tmp_path):
    run_in_ranks("train_in_parts.py", tmp_path, "bit", ranks=4)
    for rank in range(4):
        assert (tmp_path / f"watched{rank}").read_text() == (tmp_path / f"plain{rank}").read_text()
    with open_store(tmp_path / "runs") as store:
        run = store.runs()[0].id
        assert not store.events(run, kind="monitor_fault")
        found = [finding for finding in diagnose(store, run).findings if finding.cause in OF_RANKS]
    assert {(finding.cause, finding.rank) for finding in found} == {("silent_data_corruption", 3)}
    assert "between ranks 1 and 3" in found[0].explanation
    assert "column.weight" in found[0].explanation
