"""Where ranks are: from what they recorded of themselves, and by axes of a mesh."""

import numpy as np
import pytest
from mindscope.storage import Event, open_store
from mindscope.storage.ranks.topology import (
    BLOCKS,
    HOST,
    MOST_GROUPS,
    PLACE,
    Topology,
    read_topology,
    topology_of_event,
    topology_of_mesh,
    topology_of_places,
)

#: Two hosts of four ranks, a mesh of two by four.
MESH = topology_of_mesh(["left"] * 4 + ["right"] * 4, {"dp": 2, "tp": 4})


def place(rank: int) -> Event:
    """What a rank of the mesh records of itself."""
    groups = {"dp": [rank % 4, rank % 4 + 4], "tp": [rank // 4 * 4 + at for at in range(4)]}
    return Event(PLACE, 0, data={"node": "left" if rank < 4 else "right", "rank": rank, "size": 8, "groups": groups})


def same(mine: Topology, theirs: Topology) -> bool:
    pairs = zip(mine.axes, theirs.axes, strict=True)
    return mine.ranks == theirs.ranks and all(
        one.name == other.name and one.names == other.names and np.array_equal(one.groups, other.groups)
        for one, other in pairs
    )


def test_places_that_ranks_record_make_the_mesh():
    assert same(topology_of_places({rank: place(rank) for rank in range(8)}), MESH)


def test_an_event_brings_the_topology_back():
    assert same(topology_of_event(MESH.event()), MESH)


@pytest.mark.parametrize("data", [{}, {"ranks": "8", "axes": []}, {"axes": {"host": {"names": 1, "groups": ["x"]}}}])
def test_an_event_of_another_form_has_no_axes(data):
    assert topology_of_event(Event("rank_topology", 0, data=data)) == Topology(0)


def test_a_group_along_an_axis_differs_in_this_axis_alone():
    assert len(np.unique(MESH.group("tp"))) == 2
    assert len(np.unique(MESH.group("dp"))) == 4
    for rank in range(8):
        members = place(rank).data["groups"]
        for name in ("dp", "tp"):
            assert np.flatnonzero(MESH.group(name) == MESH.group(name)[rank]).tolist() == members[name]
    assert (MESH.group("world") == 0).all()


def test_a_rank_has_a_place_in_words():
    assert MESH.where(6) == "host right, dp 1, tp 2"
    assert MESH.where(99) == ""


def test_many_hosts_share_groups_and_none_is_lost():
    hosts = [f"node-{rank // 8}" for rank in range(4096)]
    axis = topology_of_mesh(hosts, {}).axis(HOST).joined()
    assert len(axis.names) == MOST_GROUPS
    assert axis.names[0] == "node-0 to node-7"
    assert np.bincount(axis.groups).tolist() == [64] * MOST_GROUPS


def test_ranks_of_which_nothing_is_known_are_divided_into_blocks():
    known = Topology(1000).with_blocks()
    assert known.axis(BLOCKS).names[0] == "0 to 15"
    assert known.axis(BLOCKS).names[-1] == "992 to 999"
    assert known.where(3) == ""
    assert MESH.with_blocks() is MESH


def test_a_run_tells_its_topology():
    with open_store("memory:") as store:
        for rank in range(8):
            writer = store.begin_run("mesh", run_id="mesh", rank=rank)
            writer.write_events([place(rank)])
            writer.close()
        assert same(read_topology(store, "mesh", tuple(range(8))), MESH)
