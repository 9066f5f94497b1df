"""`mindscope trace FILES...`: where traced ranks spend their time; `mindscope stragglers RUN`: who drags in a run."""

from typing import Annotated

import typer

from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

_Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES...",
        help="Traces of torch.profiler (export_chrome_trace, also .gz), one a rank, or their folder.",
    ),
]
_Diff = Annotated[
    list[str] | None,
    typer.Option("--diff", metavar="FILE", help="Traces to compare with, as earlier ones; may be given several times."),
]


def trace(files: _Files, diff: _Diff = None, as_document: JsonOption = False) -> int:
    """Report times, idle devices, critical path and stragglers of traced ranks, or what differs from other traces."""
    from ..insight.trace_report import render_difference, render_trace, trace_report
    from ..insight.traces import read_traces, trace_difference

    job = read_traces(files)
    if diff:
        difference = trace_difference(read_traces(diff), job)
        if as_document:
            print_json(difference)
        else:
            print(render_difference(difference))
        return 0
    report = trace_report(job)
    if as_document:
        print_json(report)
    else:
        print(render_trace(report))
    return 0


def stragglers(run: RunArgument = "latest", store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Report which rank keeps the others of a run waiting, since when, and what it costs."""
    from ..insight.stragglers import render_stragglers, store_graph
    from ..insight.stragglers import stragglers as stragglers_of

    with open_existing(store) as opened:
        known = opened.find_run(run)
        report = stragglers_of(store_graph(opened, known), source=f"run {known.id}")
    if as_document:
        print_json(report)
    else:
        print(render_stragglers(report))
    return 0
