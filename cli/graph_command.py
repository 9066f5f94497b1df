"""`mindscope graph RUN` shows the modules of a run with their values, or the differences to another run."""

from typing import TYPE_CHECKING, Annotated

import typer

from .output import add_row, console, print_json, table
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..insight.model_graph import GraphDifference, GraphNode, ModelGraph

_NONE: list[str] = []

_Step = Annotated[
    int,
    typer.Option(
        "--step", metavar="STEP", help="Show the values at this step, or the last before it; -1 for the newest."
    ),
]
_Metrics = Annotated[
    list[str], typer.Option("--metric", metavar="METRIC", help="As gradient/l2_norm; may be repeated.")
]


def graph(
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    step: _Step = -1,
    metric: _Metrics = _NONE,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="The first of the run by default.")] = None,
    against: Annotated[
        str, typer.Option("--against", metavar="RUN", help="Show the differences to that run's model.")
    ] = "",
    as_document: JsonOption = False,
) -> int:
    """Show the modules of a model as a tree with their values at a step, or how two models differ."""
    from ..insight.model_graph import METRICS, graph_difference, model_graph

    at = None if step < 0 else step
    chosen = metric or METRICS
    with open_existing(store) as opened:
        first = model_graph(opened, opened.find_run(run).id, rank=rank, step=at, metrics=chosen)
        if not against:
            print_json(first) if as_document else _print_graph(first)
            return 0
        second = model_graph(opened, opened.find_run(against).id, rank=rank, step=at, metrics=chosen)
    found = graph_difference(first, second)
    print_json(found) if as_document else _print_difference(found)
    return int(found.count("same") < len(found.nodes))


def _print_graph(found: "ModelGraph") -> None:
    if not found.nodes:
        console().print("no structure was recorded: the run has no step of the model")
        return
    metrics = list(dict.fromkeys(name for node in found.nodes for name in node.values))
    numbers = ("elements", *metrics)
    listing = table(f"step {found.step}", "module", "kind", *numbers, "findings", right=numbers)
    for depth, node in _tree(found, None, 0):
        name = "  " * depth + (node.site.rpartition(".")[2] or "(model)")
        values = (f"{node.values[metric]:.4g}" if metric in node.values else "" for metric in metrics)
        causes = ", ".join(dict.fromkeys(finding.cause for finding in node.findings))
        add_row(listing, name, node.kind, f"{node.elements:,}" if node.elements else "", *values, causes)
    console().print(listing)


def _tree(found: "ModelGraph", site: str | None, depth: int) -> "Iterator[tuple[int, GraphNode]]":
    for node in found.nodes:
        if node.parent == site:
            yield depth, node
            yield from _tree(found, node.site, depth + 1)


def _print_difference(found: "GraphDifference") -> None:
    listing = table("", "module", "status", "what", "largest ratio of values")
    for node in found.nodes:
        ratios = {name: ratio for name, ratio in node.ratios.items() if ratio == ratio and ratio > 0.0}
        far = max(ratios, key=lambda name: max(ratios[name], 1.0 / ratios[name]), default="")
        site = node.first if node.first is not None else node.second
        value = f"{far} x {ratios[far]:.4g}" if far else ""
        add_row(listing, site or "(model)", node.status.replace("_", " "), "; ".join(node.changes), value)
    console().print(listing)
