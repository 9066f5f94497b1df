"""Two models side by side: which modules are the same, which changed and in what, and how far values lie apart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...storage import ModuleInfo, Structure
from ..compare import align
from .graph import ModelGraph, Node

__all__ = ["GraphDifference", "NodeDifference", "graph_difference"]

Status = Literal["same", "changed", "only_first", "only_second"]


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """One module of either model.

    Args:
        first, second: Its site in each; None where it has no counterpart.
        changes: In words, as `kind Dense -> Conv2d`; empty unless changed.
        ratios: By metric, the second value over the first, where both are known; infinite where only the first is zero.
    """

    status: Status
    first: str | None
    second: str | None
    changes: tuple[str, ...]
    ratios: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GraphDifference:
    """All modules of two models, in the order of the first, those of the second alone at the end."""

    runs: tuple[str, str]
    steps: tuple[int, int]
    nodes: tuple[NodeDifference, ...]

    def count(self, status: Status) -> int:
        """How many modules are so."""
        return sum(node.status == status for node in self.nodes)


def graph_difference(first: ModelGraph, second: ModelGraph) -> GraphDifference:
    """The difference of two graphs; renamed modules are paired by their order and class."""
    pairs = align(_structure(first), _structure(second)).pairs
    others = {node.site: node for node in second.nodes}
    matched = set(pairs.values())
    nodes = [
        _difference(node, others[pairs[node.site]], pairs, (first, second))
        if node.site in pairs
        else NodeDifference("only_first", node.site, None, (), {})
        for node in first.nodes
    ]
    added = [NodeDifference("only_second", None, site, (), {}) for site in others if site not in matched]
    return GraphDifference((first.run, second.run), (first.step, second.step), (*nodes, *added))


def _structure(graph: ModelGraph) -> Structure:
    return Structure(tuple(ModuleInfo(node.site, node.kind, node.order) for node in graph.nodes))


def _difference(
    one: Node, other: Node, pairs: Mapping[str, str], graphs: tuple[ModelGraph, ModelGraph]
) -> NodeDifference:
    changes = tuple(_changes(one, other, pairs, graphs))
    ratios = {
        metric: _ratio(value, other.values[metric]) for metric, value in one.values.items() if metric in other.values
    }
    return NodeDifference("changed" if changes else "same", one.site, other.site, changes, ratios)


def _changes(one: Node, other: Node, pairs: Mapping[str, str], graphs: tuple[ModelGraph, ModelGraph]) -> Iterator[str]:
    if one.site != other.site:
        yield f"site {one.site} -> {other.site}"
    for name in ("kind", "elements", "trained"):
        before, after = getattr(one, name), getattr(other, name)
        if before != after:
            yield f"{name} {before} -> {after}"
    fed = {pairs.get(edge.source, edge.source) for edge in graphs[0].edges if edge.target == one.site}
    feeds = {edge.source for edge in graphs[1].edges if edge.target == other.site}
    if fed != feeds:
        yield f"inputs {', '.join(sorted(fed)) or 'none'} -> {', '.join(sorted(feeds)) or 'none'}"


def _ratio(first: float, second: float) -> float:
    if first == 0.0:
        return 1.0 if second == 0.0 else float("nan") if second != second else float("inf")
    return second / first
