"""A model's modules folded into as few boxes as a screen bears, and the data flow between them laid out in layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final

from ...storage import ModuleInfo

#: Modules are opened level by level while no more boxes than this stand there; our choice: what 900 pixels can label.
_MOST: Final = 40


@dataclass(frozen=True, slots=True)
class Box:
    """One module, closed or without parts.

    Args:
        members: The sites that it stands for, its own among them.
        layer: Row in the drawing; every box stands below all that it takes data from.
        place: Position within the row, 0 in the middle.
    """

    site: str
    kind: str
    members: tuple[str, ...]
    layer: int
    place: float

    @property
    def is_closed(self) -> bool:
        """Whether there is something inside."""
        return len(self.members) > 1


@dataclass(frozen=True, slots=True)
class Flow:
    """The boxes in the order of the computation, and which of them gives data to which."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]


def parents_of(sites: Sequence[str]) -> dict[str, str | None]:
    """The module that each site stands directly in; None for those at the top."""
    known = set(sites)
    return {site: _parent(site, known) for site in sites}


def _parent(site: str, known: set[str]) -> str | None:
    if site == "":
        return None
    prefix = site
    while "." in prefix:
        prefix = prefix.rpartition(".")[0]
        if prefix in known:
            return prefix
    return "" if "" in known else None


def flow_of(modules: Sequence[ModuleInfo], chosen: str | None = None) -> Flow:
    """The data flow of a model, opened as far as a screen bears and around the chosen site."""
    parents = parents_of([module.site for module in modules])
    inside: dict[str | None, list[str]] = {}
    for site, parent in parents.items():
        inside.setdefault(parent, []).append(site)
    shown = _shown(inside, _opened(inside, parents, chosen))
    order = {module.site: module.order for module in modules}
    members = {site: (site, *_below(site, inside)) for site in shown}
    first = {site: _first_call(members[site], order) for site in shown}
    shown.sort(key=lambda site: (first[site] < 0, first[site]))
    edges = _edges(modules, shown, members, order, inside)
    kinds = {module.site: module.kind for module in modules}
    layers = _layers(len(shown), edges)
    places = _places(layers, edges)
    boxes = (Box(site, kinds[site], members[site], layers[at], places[at]) for at, site in enumerate(shown))
    return Flow(tuple(boxes), edges)


def _opened(
    inside: Mapping[str | None, list[str]], parents: Mapping[str, str | None], chosen: str | None
) -> set[str | None]:
    """What is open: whole levels from the top while they fit, then the chosen site and all around it."""
    opened: set[str | None] = {None}
    level = [site for site in inside.get(None, ()) if site in inside]
    while level:
        wider = opened | set(level)
        if len(_shown(inside, wider)) > _MOST and len(_shown(inside, opened)) > 1:
            break
        opened = wider
        level = [site for outer in level for site in inside[outer] if site in inside]
    while chosen is not None and chosen in parents:
        opened.add(chosen)
        chosen = parents[chosen]
    return opened


def _shown(inside: Mapping[str | None, list[str]], opened: set[str | None]) -> list[str]:
    found, waiting = [], list(reversed(inside.get(None, ())))
    while waiting:
        site = waiting.pop()
        if site in opened and site in inside:
            waiting.extend(reversed(inside[site]))
        else:
            found.append(site)
    return found


def _below(site: str, inside: Mapping[str | None, list[str]]) -> list[str]:
    return [deep for near in inside.get(site, ()) for deep in (near, *_below(near, inside))]


def _first_call(members: Sequence[str], order: Mapping[str, int]) -> int:
    return min((order[site] for site in members if order[site] >= 0), default=-1)


def _edges(
    modules: Sequence[ModuleInfo],
    shown: Sequence[str],
    members: Mapping[str, tuple[str, ...]],
    order: Mapping[str, int],
    inside: Mapping[str | None, list[str]],
) -> tuple[tuple[int, int], ...]:
    """Pairs of boxes; what an open module puts out comes from the last of its parts."""
    box = {site: at for at, one in enumerate(shown) for site in members[one]}

    def giver(site: str) -> int | None:
        if site in box or site not in order:
            return box.get(site)
        parts = [part for part in _below(site, inside) if part in box]
        return box[max(parts, key=lambda part: order[part])] if parts else None

    found: dict[tuple[int, int], None] = {}
    for module in modules:
        into = box.get(module.site)
        for source in module.inputs if into is not None else ():
            out = giver(source)
            if out is not None and into is not None and out != into:
                found[out, into] = None
    return tuple(found)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way to each box; a way back, as in a loop over the same module, is not followed."""
    sorter = TopologicalSorter({at: [a for a, b in edges if b == at and a < b] for at in range(count)})
    sorter.prepare()
    layers, layer = [0] * count, 0
    while sorter.is_active():
        ready = sorter.get_ready()
        for at in ready:
            layers[at] = layer
        sorter.done(*ready)
        layer += 1
    return layers


def _places(layers: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[float]:
    """Boxes of one row side by side, each as near as can be to the middle of what it takes data from."""
    places = [0.0] * len(layers)
    for layer in range(max(layers, default=-1) + 1):
        row = [at for at, one in enumerate(layers) if one == layer]
        pull = {at: _mean([places[a] for a, b in edges if b == at and a < b]) for at in row}
        for index, at in enumerate(sorted(row, key=lambda at: (pull[at], at))):
            places[at] = index - (len(row) - 1) / 2
    return places


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
