"""The model of a run as a graph with statistics at every node, and the difference between two such graphs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from ..storage import Finding, Matrix, ModuleInfo, ParameterInfo, Store, Structure, split_metric
from .compare.pairing import align

__all__ = [
    "METRICS",
    "Edge",
    "GraphDifference",
    "GraphNode",
    "ModelGraph",
    "NodeDifference",
    "Values",
    "graph_difference",
    "model_graph",
    "values_at",
]

#: Steps that are looked at first for one that has the metric; our choice: most are recorded every ten steps or more.
_WIDTH = 32
_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs", "size"})


@dataclass(frozen=True, slots=True)
class Values:
    """What one metric was at a step, by site; NaN where it was not finite."""

    metric: str
    step: int
    by_site: Mapping[str, float]

    def of(self, module: str, parameters: Sequence[str]) -> float | None:
        """Return the module's own value, or the one over its parameters; None if neither was recorded.

        Norms of parameters add up in squares, counts as they are; of anything else the largest is shown, since what
        stands out is what is looked for. NaN of one is NaN of all.
        """
        if module in self.by_site:
            return self.by_site[module]
        found = [self.by_site[site] for site in parameters if site in self.by_site]
        if not found:
            return None
        statistic = split_metric(self.metric)[1]
        if any(math.isnan(value) for value in found):
            return float("nan")
        if statistic == "l2_norm":
            return math.hypot(*found)
        if statistic in _COUNTS:
            return sum(found)
        return min(found) if statistic == "min" else max(found)


def values_at(store: Store, run: str, metric: str, *, rank: int | None = None, step: int | None = None) -> Values:
    """Return the metric at the newest step at or before `step` that has it."""
    newest = _newest(store, run, metric, rank, step)
    if newest is None:
        return Values(metric, -1, {})
    at = int(newest.steps[-1])
    columns = zip(
        newest.sites,
        newest.high[:, -1].tolist(),
        newest.non_finite[:, -1].tolist(),
        newest.present[:, -1].tolist(),
        strict=True,
    )
    return Values(
        metric, at, {site: float("nan") if is_bad else high for site, high, is_bad, is_present in columns if is_present}
    )


def _newest(store: Store, run: str, metric: str, rank: int | None, step: int | None) -> Matrix | None:
    """Return the metric in the last steps that have it; search in ever larger ranges backwards."""
    end = next((record.step for record in store.replay(run, rank=rank, last=step, limit=1)), -1)
    first, width = end + 1, _WIDTH
    while first > 0:
        last, first = first - 1, max(0, first - width)
        found = store.matrix(run, metric, rank=rank, first=first, last=last, limit=last - first + 1)
        if found.steps.size:
            return found
        width *= 8
    return None


#: What a page colours nodes by when nobody chooses.
METRICS = (
    "activation/l2_norm",
    "activation_grad/l2_norm",
    "gradient/l2_norm",
    "weight/l2_norm",
    "update/ratio_to_weight",
)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One module.

    Args:
        parent: Site of the module around it; None for the model itself.
        order: Position among the module calls of the first forward, -1 if it was never called.
        elements: Numbers in its parameters and those of the modules inside, shared ones once.
        trained: Of these, in parameters that an optimizer steps.
        values: By metric, at the graph's step: of the module's own output, or over the parameters inside; NaN where
            it was not finite, absent where it was not recorded.
        findings: At it or inside, those of the step and before, worst first.
    """

    site: str
    kind: str
    parent: str | None
    order: int
    is_leaf: bool
    elements: int
    trained: int
    values: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """Output of one module that another took as input; `is_direct` when no operation lay between."""

    source: str
    target: str
    is_direct: bool


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """The model of a run at a step.

    Args:
        step: That the values are of; -1 when nothing was recorded.
        nodes: In call order, modules that were never called last.
    """

    run: str
    rank: int
    step: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]

    def children(self, site: str) -> tuple[GraphNode, ...]:
        """Return the direct children of a module, in call order."""
        return tuple(node for node in self.nodes if node.parent == site)


def model_graph(
    store: Store, run: str, *, rank: int | None = None, step: int | None = None, metrics: Sequence[str] = METRICS
) -> ModelGraph:
    """Return the graph of the rank's model; it has no nodes if no structure was recorded.

    Args:
        rank: The first of the run by default.
        step: At or before which values are read; the newest by default.
    """
    rank = store.find_run(run).first_rank if rank is None else rank
    structure = store.structure(run, rank=rank)
    known = frozenset(store.metrics(run, rank=rank))
    values = {name: values_at(store, run, name, rank=rank, step=step) for name in metrics if name in known}
    at = max((metric_values.step for metric_values in values.values()), default=-1)
    limit = at if step is None else step
    findings = [
        finding
        for finding in store.findings(run)
        if finding.rank == rank and (limit < 0 or finding.first_step <= limit)
    ]
    sites = {module.site for module in structure.modules}
    nodes = (_node(module, sites, structure, values, findings) for module in structure.modules)
    ordered = sorted(nodes, key=lambda node: (node.order < 0, node.order))
    return ModelGraph(run, rank, at, tuple(ordered), tuple(_edges(structure, sites)))


def _node(
    module: ModuleInfo,
    sites: set[str],
    structure: Structure,
    values: Mapping[str, Values],
    findings: Sequence[Finding],
) -> GraphNode:
    inside = [info for info in structure.parameters if _is_inside(info.site, module.site)]
    names = [info.site for info in inside]
    found = {
        metric: value
        for metric, metric_values in values.items()
        if (value := metric_values.of(module.site, names)) is not None
    }
    return GraphNode(
        site=module.site,
        kind=module.kind,
        parent=_parent_of(module.site, sites),
        order=module.order,
        is_leaf=module.is_leaf,
        elements=_elements(inside, structure),
        trained=_elements([info for info in inside if info.requires_grad and info.group is not None], structure),
        values=found,
        findings=tuple(
            sorted((finding for finding in findings if _is_inside(finding.site, module.site)), key=_badness)
        ),
    )


def _is_inside(site: str, module: str) -> bool:
    return not module or site == module or site.startswith(f"{module}.")


def _parent_of(site: str, sites: set[str]) -> str | None:
    """Return the nearest known module around a site; None for the root."""
    while site:
        site = site.rpartition(".")[0]
        if site in sites:
            return site
    return None


def _elements(parameters: Iterable[ParameterInfo], structure: Structure) -> int:
    shows_sharing = len({info.storage for info in structure.parameters}) > 1  # which parameters share memory
    unique = {info.storage if shows_sharing else info.site: prod(info.shape) for info in parameters}
    return sum(unique.values())


def _badness(finding: Finding) -> tuple[int, int]:
    return -("info", "warning", "error").index(finding.severity), finding.first_step


def _edges(structure: Structure, sites: set[str]) -> Iterator[Edge]:
    for module in structure.modules:
        for source in module.inputs:
            if source in sites:
                yield Edge(source, module.site, source in module.direct)


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
        """Return how many modules have the status."""
        return sum(node.status == status for node in self.nodes)


def graph_difference(first: ModelGraph, second: ModelGraph) -> GraphDifference:
    """Return the difference of two graphs; renamed modules are paired by order and class."""
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
    first: GraphNode, second: GraphNode, pairs: Mapping[str, str], graphs: tuple[ModelGraph, ModelGraph]
) -> NodeDifference:
    changes = tuple(_changes(first, second, pairs, graphs))
    ratios = {
        metric: _ratio(value, second.values[metric])
        for metric, value in first.values.items()
        if metric in second.values
    }
    return NodeDifference("changed" if changes else "same", first.site, second.site, changes, ratios)


def _changes(
    first: GraphNode, second: GraphNode, pairs: Mapping[str, str], graphs: tuple[ModelGraph, ModelGraph]
) -> Iterator[str]:
    if first.site != second.site:
        yield f"site {first.site} -> {second.site}"
    for name in ("kind", "elements", "trained"):
        before, after = getattr(first, name), getattr(second, name)
        if before != after:
            yield f"{name} {before} -> {after}"
    fed = {pairs.get(edge.source, edge.source) for edge in graphs[0].edges if edge.target == first.site}
    feeds = {edge.source for edge in graphs[1].edges if edge.target == second.site}
    if fed != feeds:
        yield f"inputs {', '.join(sorted(fed)) or 'none'} -> {', '.join(sorted(feeds)) or 'none'}"


def _ratio(first: float, second: float) -> float:
    if first == 0.0:
        return 1.0 if second == 0.0 else float("nan") if second != second else float("inf")
    return second / first
