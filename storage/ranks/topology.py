"""Where the ranks of a run are: on which host, and at which place along each axis of the mesh."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import RunNotFound
from ..records import Event, Json
from ..run_info import ALL_RANKS
from ..store import Store

#: The kinds of the events: the place of one rank, recorded by itself, and the topology of a roll-up.
PLACE: Final = "rank_place"
TOPOLOGY: Final = "rank_topology"
#: The step of an event before the first step: those of a step go when its preview is replaced.
BEFORE: Final = -1
#: The axis of the hosts.
HOST: Final = "host"
#: The axis of consecutive ranks, where nothing else is known.
BLOCKS: Final = "ranks"
#: Most groups of ranks along an axis in a roll-up: more hosts share a group with their neighbours. Our choice: as many
#: rows as a heat map shows.
MOST_GROUPS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class RankAxis:
    """One way to divide the ranks: by host, or by place along an axis of the mesh.

    Args:
        names: Of the groups.
        groups: `(ranks,)` int64, which group each rank is in, -1 where that is not known.
    """

    name: str
    names: tuple[str, ...]
    groups: NDArray[np.int64]

    def members(self, group: int) -> NDArray[np.int64]:
        """Return the ranks of a group."""
        return np.flatnonzero(self.groups == group)

    def joined(self, most: int = MOST_GROUPS) -> "RankAxis":
        """Return the axis with at most so many groups: neighbours are joined."""
        if len(self.names) <= most:
            return self
        size = -(-len(self.names) // most)
        parts = [self.names[at : at + size] for at in range(0, len(self.names), size)]
        names = tuple(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)
        return RankAxis(self.name, names, np.where(self.groups < 0, -1, self.groups // size))


@dataclass(frozen=True, slots=True)
class Topology:
    """The ranks of a run and the axes along which they are divided, the hosts first."""

    ranks: int
    axes: tuple[RankAxis, ...] = ()

    def axis(self, name: str) -> RankAxis | None:
        """Return the axis of that name."""
        return next((axis for axis in self.axes if axis.name == name), None)

    def group(self, name: str) -> NDArray[np.int64]:
        """Return which process group of that name each rank is in: `(ranks,)`, -1 where that is not known.

        The group along an axis of the mesh holds the ranks that differ in this axis alone; one of another name, all.
        """
        if self.axis(name) is None or name == HOST:
            return np.zeros(self.ranks, dtype=np.int64)
        others = [axis.groups for axis in self.axes if axis.name not in (HOST, BLOCKS, name)]
        if not others:
            return np.zeros(self.ranks, dtype=np.int64)
        places, number = np.unique(np.stack(others), axis=1, return_inverse=True)
        is_unknown = np.logical_or.reduce(places < 0, axis=0)
        return np.where(is_unknown[number.ravel()], -1, number.ravel())

    def with_blocks(self) -> "Topology":
        """Return the topology with an axis of consecutive ranks if it has none."""
        if self.axes or not self.ranks:
            return self
        size = -(-self.ranks // MOST_GROUPS)
        names = tuple(f"{at} to {min(at + size, self.ranks) - 1}" for at in range(0, self.ranks, size))
        return Topology(self.ranks, (RankAxis(BLOCKS, names, np.arange(self.ranks) // size),))

    def where(self, rank: int) -> str:
        """Return the place of a rank in words: `host node-3, data 2`; empty where nothing is known."""
        axes = (axis for axis in self.axes if axis.name != BLOCKS)
        known = [axis for axis in axes if 0 <= rank < len(axis.groups) and axis.groups[rank] >= 0]
        return ", ".join(f"{axis.name} {axis.names[axis.groups[rank]]}" for axis in known)

    def event(self) -> Event:
        """Return the topology as an event."""
        axes: dict[str, Json] = {
            axis.name: {"names": list(axis.names), "groups": [int(group) for group in axis.groups]}
            for axis in self.axes
        }
        return Event(TOPOLOGY, 0, data={"ranks": self.ranks, "axes": axes})


def topology_of_event(event: Event) -> Topology:
    """Return the topology that an event of `Topology.event` holds; what of it has another form is left out."""
    axes = event.data.get("axes")
    found = []
    for name, axis in axes.items() if isinstance(axes, dict) else ():
        names, groups = (axis.get("names"), axis.get("groups")) if isinstance(axis, dict) else (None, None)
        if isinstance(names, list) and isinstance(groups, list) and all(isinstance(one, int) for one in groups):
            found.append(RankAxis(name, tuple(map(str, names)), np.array(groups, dtype=np.int64)))
    ranks = event.data.get("ranks")
    return Topology(ranks if isinstance(ranks, int) else 0, tuple(found))


def topology_of_mesh(hosts: Sequence[str], mesh: Mapping[str, int]) -> Topology:
    """Return the topology of ranks that fill a mesh, the last axis fastest.

    Args:
        hosts: The host of each rank.
        mesh: How many places each axis has; their product is the number of ranks.
    """
    axes = [_axis(HOST, list(hosts))]
    places = np.unravel_index(np.arange(len(hosts)), tuple(mesh.values())) if mesh else ()
    for (name, size), of_rank in zip(mesh.items(), places, strict=True):
        axes.append(RankAxis(name, tuple(map(str, range(size))), of_rank.astype(np.int64)))
    return Topology(len(hosts), tuple(axes))


def place_event(rank: int, size: int, local_rank: int, groups: Mapping[str, Sequence[int]], device: str = "") -> Event:
    """Return the place of this process's rank as an event.

    Args:
        groups: The ranks of its process groups, by name; the group of all ranks is left out.
        device: That its model is on: `cuda:3`.
    """
    known: dict[str, Json] = {name: list(ranks) for name, ranks in groups.items() if len(ranks) < size}
    data: dict[str, Json] = {"node": platform.node(), "rank": rank, "size": size, "local_rank": local_rank}
    return Event(PLACE, BEFORE, data={**data, "pid": os.getpid(), "device": device, "groups": known})


def topology_of_places(places: Mapping[int, Event]) -> Topology:
    """Return the topology of ranks that recorded their places as `rank_place`.

    A rank's place along an axis is its place in the process group of that name; the group of all ranks is no axis.
    """
    sizes = [size for event in places.values() if isinstance(size := event.data.get("size"), int)]
    count = max([*(rank + 1 for rank in places), *sizes], default=0)
    hosts: list[str | None] = [None] * count
    along: dict[str, NDArray[np.int64]] = {}
    for rank, event in places.items():
        node, groups = event.data.get("node"), event.data.get("groups")
        hosts[rank] = node if isinstance(node, str) else None
        for name, members in groups.items() if isinstance(groups, dict) else ():
            if isinstance(members, list) and rank in members and 1 < len(members) < count:
                along.setdefault(name, np.full(count, -1, dtype=np.int64))[rank] = members.index(rank)
    axes = [_axis(HOST, hosts)] if any(hosts) else []
    axes += [RankAxis(name, tuple(map(str, range(int(of.max()) + 1))), of) for name, of in sorted(along.items())]
    return Topology(count, tuple(axes))


def _axis(name: str, of_rank: Sequence[str | None]) -> RankAxis:
    names = tuple(dict.fromkeys(one for one in of_rank if one is not None))
    at = {one: place for place, one in enumerate(names)}
    return RankAxis(name, names, np.array([-1 if one is None else at[one] for one in of_rank], dtype=np.int64))


def read_topology(store: Store, run: str, ranks: Sequence[int]) -> Topology:
    """Return the topology of a run: that of its roll-up, or what its ranks recorded, of which the first 64 are read."""
    try:
        events = store.events(run, rank=ALL_RANKS, kind=TOPOLOGY, limit=1)
    except RunNotFound:
        events = ()
    if events:
        return topology_of_event(events[-1])
    known = topology_of_places(read_places(store, run, ranks))
    return known if known.ranks >= len(ranks) else Topology(max(ranks, default=-1) + 1, known.axes)


def read_places(store: Store, run: str, ranks: Sequence[int]) -> dict[int, Event]:
    """Return what ranks recorded of their places, of the first 64."""
    places = {}
    for rank in ranks[:MOST_GROUPS]:
        if found := store.events(run, rank=rank, kind=PLACE, limit=1):
            places[rank] = found[-1]
    return places
