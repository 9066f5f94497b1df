"""The model as a graph: modules as a tree, the data flow between them, and what was measured at each at one step."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ...storage import Finding, ModuleInfo, ParameterInfo, Store, Structure
from .values import Values, values_at

__all__ = ["METRICS", "Edge", "ModelGraph", "Node", "model_graph"]

#: What a page colours nodes by when nobody chooses.
METRICS = (
    "activation/l2_norm",
    "activation_grad/l2_norm",
    "gradient/l2_norm",
    "weight/l2_norm",
    "update/ratio_to_weight",
)


@dataclass(frozen=True, slots=True)
class Node:
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
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def children(self, site: str) -> tuple[Node, ...]:
        """The modules right inside of one, in call order."""
        return tuple(node for node in self.nodes if node.parent == site)


def model_graph(
    store: Store, run: str, *, rank: int = 0, step: int | None = None, metrics: Sequence[str] = METRICS
) -> ModelGraph:
    """The graph of the rank's model; without nodes where no structure was recorded.

    Args:
        step: At or before which values are read; the newest by default.
    """
    structure = store.structure(run, rank=rank)
    known = frozenset(store.metrics(run, rank=rank))
    values = {name: values_at(store, run, name, rank=rank, step=step) for name in metrics if name in known}
    at = max((found.step for found in values.values()), default=-1)
    limit = at if step is None else step
    findings = [one for one in store.findings(run) if one.rank == rank and (limit < 0 or one.first_step <= limit)]
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
) -> Node:
    inside = [info for info in structure.parameters if _is_inside(info.site, module.site)]
    names = [info.site for info in inside]
    found = {metric: value for metric, held in values.items() if (value := held.of(module.site, names)) is not None}
    return Node(
        module.site,
        module.kind,
        _parent_of(module.site, sites),
        module.order,
        module.is_leaf,
        _elements(inside, structure),
        _elements([info for info in inside if info.requires_grad and info.group is not None], structure),
        found,
        tuple(sorted((one for one in findings if _is_inside(one.site, module.site)), key=_badness)),
    )


def _is_inside(site: str, module: str) -> bool:
    return not module or site == module or site.startswith(f"{module}.")


def _parent_of(site: str, sites: set[str]) -> str | None:
    """The nearest module around a site that is known; None for the root."""
    while site:
        site = site.rpartition(".")[0]
        if site in sites:
            return site
    return None


def _elements(parameters: Iterable[ParameterInfo], structure: Structure) -> int:
    is_told = len({info.storage for info in structure.parameters}) > 1  # which parameters share memory
    once = {info.storage if is_told else info.site: prod(info.shape) for info in parameters}
    return sum(once.values())


def _badness(finding: Finding) -> tuple[int, int]:
    return -("info", "warning", "error").index(finding.severity), finding.first_step


def _edges(structure: Structure, sites: set[str]) -> Iterator[Edge]:
    for module in structure.modules:
        for source in module.inputs:
            if source in sites:
                yield Edge(source, module.site, source in module.direct)
