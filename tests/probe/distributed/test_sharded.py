"""Parameters that FSDP2 shards: every rank records its own part, and the training is the same to the bit."""

import math

import pytest
from mindscope.storage import open_store

from tests.probe.distributed.processes import run_in_ranks

pytest.importorskip("torch.distributed.fsdp", reason="PyTorch with FSDP2 is not installed")

STEPS = 4
#: Elements of the parts on rank 0 and rank 1; of three rows the first rank has two.
PARTS = {"0.weight": (24, 24), "0.bias": (4, 4), "2.weight": (16, 8), "2.bias": (2, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    run_in_ranks("train_sharded.py", folder)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    with open_store(folder / "runs") as store:
        yield store, store.runs()[0]


def told(folder, rank):
    return (folder / f"watched{rank}").read_text().split("\n")


def test_losses_and_weights_are_the_same_to_the_bit(folder):
    for rank in (0, 1):
        assert told(folder, rank) == (folder / f"plain{rank}").read_text().split("\n")


def test_every_rank_records_its_own_part_of_everything(folder, run):
    store, its = run
    assert (its.ranks, its.state) == ((0, 1), "finished")
    for rank in (0, 1):
        for subject in ("gradient", "weight", "update", "optimizer/exp_avg_sq"):
            sizes = {site: store.series(its.id, site, f"{subject}/size", rank=rank).values.tolist() for site in PARTS}
            assert sizes == {site: [part[rank]] * STEPS for site, part in PARTS.items()}, subject
        norms = store.series(its.id, "0.weight", "gradient/l2_norm", rank=rank).values
        squares = [float(one) for one in told(folder, rank)[STEPS : 2 * STEPS]]
        assert norms.tolist() == pytest.approx([math.sqrt(one) for one in squares], rel=1e-6)
        spectrum = store.series(its.id, "2.weight", "weight/spectrum/largest_singular_value", rank=rank)
        assert (spectrum.values > 0.0).all()


def test_parts_that_differ_by_intent_are_no_finding_and_nothing_has_failed(run):
    store, its = run
    causes = {one.cause for one in store.findings(its.id)}
    assert not causes & {"rank_desync", "monitor_fault", "shared_parameter_error", "silent_data_corruption"}


def test_the_collectives_of_the_sharding_are_seen(run):
    store, its = run
    gathered = store.series(its.id, "all_gather_single/world", "communication/size")
    assert gathered.values.tolist() == [2 * (24 + 4)] * STEPS
    scattered = store.series(its.id, "reduce_scatter_single/world", "communication/bytes")
    assert len(scattered.steps) == STEPS
