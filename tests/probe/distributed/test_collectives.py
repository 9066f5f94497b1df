"""Every collective of torch.distributed, at once and asynchronously: what it gave and got, and that nothing changes."""

import platform

import pytest
from mindscope.storage import open_store
from mindscope.storage.ranks.topology import read_places

from tests.probe.distributed.processes import run_in_ranks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.skipif(
        not hasattr(torch.distributed, "all_gather_single"), reason="this PyTorch names its collectives otherwise"
    ),
]

# What each rank puts in: [10, 11] and [20, 21], or four of these; means before, and after on rank 0, by hand.
MEANS = {
    "all_reduce": (10.5, 31.0),
    "all_gather": (10.5, 10.5),
    "all_gather_single": (10.5, 15.5),
    "reduce_scatter": (10.5, 31.0),
    "reduce_scatter_single": (11.5, 31.0),
    "broadcast": (10.5, 20.5),
    "all_to_all": (10.5, 10.5),
    "all_to_all_single": (10.5, 15.0),
    "reduce": (10.5, 31.0),
    "gather": (10.5, 10.5),
    "scatter": (10.5, 10.5),
}
BYTES = {"reduce_scatter": 16, "reduce_scatter_single": 16, "all_to_all": 16, "scatter": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collectives")
    run_in_ranks("call_every_collective.py", folder)
    return folder


@pytest.fixture(scope="module")
def number(folder):
    """The numbers of one statistic at one site on rank 0, in the order of the calls."""
    with open_store(folder / "runs") as store:
        (run,) = store.runs()

        def read(site, metric, calls=2):
            found = [store.series(run.id, site, f"communication{metric}", call=call).values for call in range(calls)]
            return [value for one in found for value in one.tolist()]

        yield read


def test_nothing_that_comes_out_is_changed(folder):
    for rank in (0, 1):
        assert (folder / f"watched{rank}").read_text() == (folder / f"plain{rank}").read_text()


@pytest.mark.parametrize("name", MEANS)
def test_a_collective_is_recorded_once_a_call_at_once_and_later(number, name):
    before, after = MEANS[name]
    site = f"{name}/world"
    assert number(site, "/before/mean", 3) == [before] * 2
    assert number(site, "/mean", 3) == [after] * 2
    assert number(site, "/bytes") == [BYTES.get(name, 8)] * 2
    assert all(
        0.0 <= wait <= whole
        for wait, whole in zip(number(site, "/wait_seconds"), number(site, "/seconds"), strict=True)
    )


def test_several_tensors_have_their_places(number):
    assert number("all_gather/world[1]", "/mean") == [20.5] * 2
    assert number("scatter/world[1]", "/before/mean") == [11.0] * 2


def test_messages_from_one_to_another_are_recorded_with_their_peer_where_they_come_and_go(number):
    for sent, received in (("send", "recv"), ("isend", "irecv")):
        assert number(f"{sent}/world:+1", "/before/mean", 1) == [10.5]
        assert number(f"{received}/world:+1", "/mean", 1) == [20.5]
        assert number(f"{sent}/world:+1", "/bytes", 1) == number(f"{received}/world:+1", "/bytes", 1) == [8]
    assert number("isend/world:+1", "/before/mean", 4) == [10.5] * 3  # two batches and one that is alone
    assert number("irecv/world:+1", "/mean", 4) == [20.5] * 3
    waits, whole = number("irecv/world:+1", "/wait_seconds", 4), number("irecv/world:+1", "/seconds", 4)
    assert all(0.0 <= wait <= seconds for wait, seconds in zip(waits, whole, strict=True))


def test_the_other_rank_has_the_same_messages_from_its_own_side(folder):
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        sites = {site for layout in store.layouts(run.id, rank=1) for site in layout.sites}
    assert {"send/world:-1", "recv/world:-1", "isend/world:-1", "irecv/world:-1"} <= sites


def test_each_rank_records_its_host_process_and_device(folder):
    with open_store(folder / "runs") as store:
        (run,) = store.runs()
        places = [place.data for place in read_places(store, run.id, run.ranks).values()]
    assert [(place["rank"], place["device"]) for place in places] == [(0, "cpu"), (1, "cpu")]
    assert len({place["pid"] for place in places}) == 2
    assert {place["node"] for place in places} == {platform.node()}
