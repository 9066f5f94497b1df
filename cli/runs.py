"""`mindscope runs` lists a store, `mindscope show RUN` describes one run."""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .dumped import dumped_of
from .options import DEFAULT_STORE, JsonOption, RunArgument, SameStoreOption, StoreArgument, StoreOption
from .output import add_row, age, as_json, console, print_json, sparkline, table
from .stores import open_existing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..storage import Event, Finding, Layout, Run, Series, Store, Structure

_STATE_STYLES = {"running": "cyan", "finished": "green", "failed": "red", "crashed": "red"}
#: Changes of modules that are told, the newest, as many of optimizers, and sites that are named of each (our choice: a
#: few lines).
_CHANGES: Final = 4
_SITES: Final = 6
_SEVERITY_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


def runs(
    store: StoreArgument = DEFAULT_STORE,
    same_store: SameStoreOption = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most, newest first.")] = 50,
    as_document: JsonOption = False,
) -> int:
    """List the runs of a store, newest first.

    `updated` is when the process that writes the run was last heard of: of a killed run its last sign of life.
    """
    store = same_store or store
    with open_existing(store) as opened:
        found = opened.runs(limit=limit)
    if as_document:
        print_json({"store": opened.url, "runs": found})
        return 0
    listing = table(
        "", "id", "name", "state", "kind", "steps", "findings", "updated", "tags", right=("steps", "findings")
    )
    for run in found:
        add_row(
            listing,
            run.id, run.name, _state(run), run.kind, str(run.last_step + 1), _worst(run), f"{age(run.updated_at)} ago",
            _tags(run),
        )  # fmt: skip
    out = console()
    out.print(listing if found else f"no runs in {opened.url!r} yet; 'mindscope demo' makes two")
    return 0


def show(run: RunArgument = "latest", store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Describe one run: state, model, what was recorded, the loss, the findings."""
    from ..insight.thinning import thinning_of

    with open_existing(store) as opened:
        found = opened.find_run(run)
        structure = opened.structure(found.id)
        loss = opened.series(found.id, "", "scalar/loss", limit=400)
        findings = opened.findings(found.id)
        thinned, dumped = thinning_of(opened, found.id, found.ranks), dumped_of(opened, found)
        if as_document:
            document = _document(opened, found, structure, loss, findings)
            print_json({**document, "thinned": thinned, "tensors": dumped})
            return 0
        out = console()
        _print_head(out, found, loss)
        if thinned is not None:
            out.print(f"  schedule: {thinned.to_text()}", markup=False)
        if dumped is not None:
            out.print(f"  dumped: {dumped.to_text()}", markup=False)
        _print_model(out, opened, found, structure)
        _print_findings(out, findings)
    return 0


def _document(
    store: "Store", run: "Run", structure: "Structure", loss: "Series", findings: "tuple[Finding, ...]"
) -> dict[str, object]:
    return {
        **as_json(run),
        "parameters": _parameter_count(structure),
        "modules": len(structure.modules),
        "optimizers": structure.optimizers,
        "metrics": store.metrics(run.id),
        "loss": {"steps": loss.steps.tolist(), "values": loss.values.tolist()},
        "findings": findings,
    }


def _print_head(out: "Console", run: "Run", loss: "Series") -> None:
    from rich.text import Text

    out.print(Text(run.name, style="bold").append(f"  {run.id}", style="not bold"))
    heard = f"last heard of {age(run.updated_at)} ago" if run.state in ("running", "crashed") else ""
    facts = [f"{run.last_step + 1} steps", f"begun {age(run.created_at)} ago", heard, run.kind, run.framework]
    out.print(Text("  ").append(_state(run)).append("".join(f" · {fact}" for fact in facts if fact)))
    if run.error:
        out.print(f"  ended by: {run.error}", style="red", markup=False)
    arguments = run.host.get("arguments")
    if isinstance(arguments, list):
        out.print(f"  arguments: {shlex.join(map(str, arguments))}", markup=False)
    if run.tags:
        out.print(f"  tags: {_tags(run)}", markup=False)
    if run.remark:
        out.print(f"  remark: {run.remark}", markup=False)
    if len(loss.values):
        out.print(f"  loss  {sparkline(loss.values.tolist())}  {loss.values[0]:.4g} → {loss.values[-1]:.4g}")


def _print_model(out: "Console", store: "Store", run: "Run", structure: "Structure") -> None:
    if structure.modules or structure.parameters:
        out.print(
            f"  model: {len(structure.modules)} modules, {len(structure.parameters)} parameters "
            f"of {_parameter_count(structure):,} elements"
        )
    for optimizer in structure.optimizers:
        rates = ", ".join(str(group["lr"]) for group in optimizer.groups if "lr" in group)
        out.print(f"  optimizer: {optimizer.kind}" + (f" at rate {rates}" if rates else ""))
    _print_streams(out, store.layouts(run.id))
    told = [
        (event.step, words(event))
        for kind, words in (("modules_changed", _modules_changed), ("optimizer_changed", _optimizer_changed))
        for event in store.events(run.id, kind=kind, limit=_CHANGES)
    ]
    for _, line in sorted(told):
        out.print(f"  {line}", markup=False)


def _print_streams(out: "Console", layouts: "Iterable[Layout]") -> None:
    """A line a subject: what has joined under way, and what one stream does not hold, is recorded in further ones."""
    sites: dict[str, set[str]] = {}
    statistics: dict[str, dict[str, None]] = {}
    for layout in layouts:
        sites.setdefault(layout.subject, set()).update(layout.sites)
        statistics.setdefault(layout.subject, {}).update(dict.fromkeys(layout.statistics))
    streams = table("recorded", "subject", "sites", "statistics", right=("sites",))
    for subject, found in sites.items():
        add_row(streams, subject, str(len(found)), " ".join(statistics[subject]))
    if streams.row_count:
        out.print(streams)


def _optimizer_changed(event: "Event") -> str:
    before = event.data.get("before")
    place = ", ".join(map(str, before)) if isinstance(before, list) else ""
    return f"optimizer changed at step {event.step}: {event.data.get('optimizer_kind')} took the place of {place}"


def _modules_changed(event: "Event") -> str:
    from ..storage import display_site

    sites, count = event.data.get("sites"), event.data.get("count")
    named = [display_site(str(site)) for site in sites] if isinstance(sites, list) else []
    more = f" and {count - _SITES} more" if isinstance(count, int) and count > _SITES else ""
    where = ", ".join(named[:_SITES]) + more
    return f"modules changed at step {event.step}: {where}; those before and those since are counted together"


def _print_findings(out: "Console", findings: "tuple[Finding, ...]") -> None:
    from rich.text import Text

    from ..storage import display_site

    if not findings:
        out.print("no findings")
        return
    listing = table("findings", "severity", "since", "cause", "site", "what", right=("since",))
    for finding in findings:
        severity = Text(finding.severity, style=_SEVERITY_STYLES[finding.severity])
        add_row(
            listing, severity, str(finding.first_step), finding.cause, display_site(finding.site), finding.explanation
        )
    out.print(listing)


def _parameter_count(structure: "Structure") -> int:
    from math import prod

    return sum(prod(parameter.shape) for parameter in structure.parameters)


def _state(run: "Run") -> "Text":
    from rich.text import Text

    return Text(run.state, style=_STATE_STYLES[run.state])


def _worst(run: "Run") -> "Text":
    from rich.text import Text

    if not run.worst:
        return Text("0")
    said = f"1 {run.worst}" if run.findings == 1 else f"{run.findings}, worst: {run.worst}"
    return Text(said, style=_SEVERITY_STYLES[run.worst])


def _tags(run: "Run") -> str:
    return " ".join(f"{key}={value}" for key, value in run.tags.items())
