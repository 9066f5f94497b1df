"""`mindscope runs` lists a store, `mindscope show RUN` describes one run."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .evaluation_verdict import evaluation_cell, evaluation_document, print_evaluation
from .failures import STORE_UNREADABLE
from .known_runs import KnownRuns
from .loss_lines import ends_in_json, print_loss
from .output import add_row, age, as_json, console, print_json, table
from .step_spans import Span, merged, steps_in_words
from .store_options import (
    DEFAULT_STORE,
    JsonOption,
    RunArgument,
    SameStoreOption,
    StoreArgument,
    StoreOption,
    is_path,
    open_existing,
)
from .stored_verdict import print_verdict, stored_verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..storage import Event, Finding, Layout, Run, Series, Store, Structure

_STATE_STYLES = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "crashed": "red",
    "interrupted": "yellow",
    "stopped": "yellow",
}
#: Most changes of modules, and of optimizers, that are shown, the newest; and most sites of each (our choice).
_CHANGES: Final = 4
_SITES: Final = 6
#: Characters of an error that are shown (our choice: a line or two of a terminal).
_ERROR_LENGTH: Final = 160
#: Bytes of a step of one rank that are much, and steps from which on they are judged (our choice: a gigabyte in twenty
#: thousand steps; the first steps carry the structure and a file its ballast).
_MUCH_BYTES: Final = 50_000
_ENOUGH: Final = 100
#: Scalars that a step gets when it ends.
_OF_A_FINISHED_STEP: Final = frozenset({"step_seconds", "learning_rate"})
_SEVERITY_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


def runs(
    store: StoreArgument = DEFAULT_STORE,
    same_store: SameStoreOption = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most, newest first.")] = 50,
    as_document: JsonOption = False,
) -> int:
    """List the runs of a store, newest first.

    `updated` is the time of the last heartbeat of the process that writes the run. An evaluation shows its worst case
    instead of findings.
    """
    store = same_store or store
    with open_existing(store) as opened:
        found = opened.runs(limit=limit)
        known = KnownRuns()
        verdicts = [known.recall(opened, run, "verdict", partial(stored_verdict, opened, run)) for run in found]
        steps = [
            known.recall(opened, run, "steps", partial(finished_steps, opened, run))
            for run in ([] if as_document else found)
        ]
        known.save()
        outcomes = {run.id: opened.outcomes(run.id) for run in found if run.kind == "evaluation"}
    if as_document:
        parts = [
            verdict | evaluation_document(outcomes.get(run.id, ()))
            for run, verdict in zip(found, verdicts, strict=True)
        ]
        listed = [{**as_json(run), **part} for run, part in zip(found, parts, strict=True)]
        print_json({"store": opened.url, "runs": listed})
        return 0
    columns = ("id", "name", "state", "kind", "steps", "verdict", "findings", "updated", "tags")
    listing = table("", *columns, right=("steps", "findings"))
    for run, count, verdict in zip(found, steps, verdicts, strict=True):
        facts = (run.id, run.name, _state(run), run.kind, str(count), str(verdict.get("verdict_words", "")))
        findings = evaluation_cell(outcomes[run.id]) if run.id in outcomes else _worst(run)
        add_row(listing, *facts, findings, f"{age(run.updated_at)} ago", _tags(run))
    out = console()
    out.print(listing if found else f"no runs in {opened.url!r} yet; 'mindscope demo' makes two")
    return 0


def show(run: RunArgument = "latest", store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Describe one run: state, model, what was recorded, the loss, the findings; of an evaluation the outcomes."""
    from ..insight.schedule_thinning import thinning_of
    from ..storage.repair.quick_check import broken_files
    from ..storage.training_kinds import kind_of_events

    with open_existing(store) as opened:
        found = opened.find_run(run)
        structure = opened.structure(found.id)
        loss = opened.series(found.id, "", "scalar/loss", limit=400)
        findings, outcomes = opened.findings(found.id), opened.outcomes(found.id)
        thinned, dumped = thinning_of(opened, found.id, found.ranks), dumped_of(opened, found)
        kind = kind_of_events(opened.events(found.id, kind="training_kind"))
        lost = sum(_numbers(_events(opened, found, "observations_lost"), "count"))
        damage = broken_files(opened.url, found.id)
        verdict = stored_verdict(opened, found, damage)
        if as_document:
            document = _document(opened, found, structure, loss, findings)
            print_json(
                {
                    **document,
                    "thinned": thinned,
                    "tensors": dumped,
                    "lost_records": lost,
                    "outcomes": outcomes,
                    "training_kind": kind.to_data(),
                    **verdict,
                    **evaluation_document(outcomes),
                }
            )
            return STORE_UNREADABLE if damage else 0
        out = console()
        steps = finished_steps(opened, found)
        _print_head(out, found, loss, steps)
        if stored := stored_size(opened.url, found, steps):
            out.print(f"  stored: {stored}", markup=False)
        for name in _learners(_events(opened, found, "learners")):
            print_loss(out, opened.series(found.id, "", f"scalar/{name}/loss", limit=400), f"loss of {name}")
        if kind.label:
            out.print(f"  kind: {kind.to_text()}", markup=False)
        if thinned is not None:
            out.print(f"  schedule: {thinned.to_text()}", markup=False)
        if dumped is not None:
            out.print(f"  dumped: {dumped.to_text()}", markup=False)
        if lost:
            out.print(f"  lost: {lost} records; mindscope events {found.name} --kind observations_lost", markup=False)
        _print_model(out, opened, found, structure)
        print_evaluation(out, outcomes)
        if findings or not outcomes:
            _print_findings(out, findings)
        print_verdict(out, found, verdict)
    return STORE_UNREADABLE if damage else 0


def _document(
    store: "Store", run: "Run", structure: "Structure", loss: "Series", findings: "tuple[Finding, ...]"
) -> dict[str, object]:
    return {
        **as_json(run),
        "parameters": _parameter_count(structure),
        "modules": len(structure.modules),
        "optimizers": structure.optimizers,
        "metrics": store.metrics(run.id),
        "loss": {"steps": loss.steps.tolist(), "values": loss.values.tolist(), **ends_in_json(loss)},
        "findings": findings,
    }


def finished_steps(store: "Store", run: "Run") -> int:
    """Return how many steps have come to their end; a forward behind the last one begins a step that never does."""
    rank = run.first_rank
    last = list(store.replay(run.id, rank=rank, first=run.last_step))
    names = {name for record in last for name in record.scalars}
    # else it holds events alone, or the loss of a last step that was thinned away
    has_begun = bool(names - {"loss"}) or any(record.blocks for record in last)
    known = _OF_A_FINISHED_STEP.intersection(name.removeprefix("scalar/") for name in store.metrics(run.id, rank=rank))
    return run.last_step + int(not has_begun or not known or bool(known & names))


def _print_head(out: "Console", run: "Run", loss: "Series", steps: int) -> None:
    from rich.text import Text

    out.print(Text(run.name, style="bold").append(f"  {run.id}", style="not bold"))
    heartbeat = f"last heartbeat {age(run.updated_at)} ago" if run.state in ("running", "crashed") else ""
    facts = [f"{steps} steps", f"begun {age(run.created_at)} ago", heartbeat, run.kind, run.framework]
    out.print(Text("  ").append(_state(run)).append("".join(f" · {fact}" for fact in facts if fact)))
    if run.error:
        _print_error(out, run)
    arguments = run.host.get("arguments")
    if isinstance(arguments, list):
        out.print(f"  arguments: {shlex.join(map(str, arguments))}", markup=False)
    if run.tags:
        out.print(f"  tags: {_tags(run)}", markup=False)
    if run.remark:
        out.print(f"  remark: {run.remark}", markup=False)
    print_loss(out, loss, "loss")


def _learners(events: "Iterable[Event]") -> list[str]:
    """Return the names of the learners; empty where there is one."""
    names: list[str] = []
    for event in events:
        found = event.data.get("learners")
        if isinstance(found, list):
            names = [str(learner["name"]) for learner in found if isinstance(learner, dict)]
    return names


def stored_size(url: str, run: "Run", steps: int) -> str:
    """Return the size of the run's files, and what makes it smaller where a step takes much; empty for a database."""
    if not is_path(url):
        return ""
    place = Path(url).expanduser()
    folder = place.parent if place.suffix == ".db" else place
    size = sum(file.stat().st_size for file in folder.glob(f"{escape(run.id)}.rank*.db*") if file.is_file())
    if not size:
        return ""
    if not steps:
        return _size(size)
    a_step = size / steps
    is_much = steps >= _ENOUGH and a_step / len(run.ranks) > _MUCH_BYTES
    remedy = "; less with every: 10, or subjects: {optimizer: 10, gradient: 10}" if is_much else ""
    return f"{_size(size)}, {_size(a_step)} a step{remedy}"


def _print_error(out: "Console", run: "Run") -> None:
    """Print the first line of what ended the run, and where the rest is."""
    from ..storage.plain_text import one_line

    first, _, rest = run.error.strip().partition("\n")
    shown = one_line(first, _ERROR_LENGTH)
    more = f"; all of it: mindscope events {run.id} --kind exception --full" if rest or shown != first else ""
    out.print(f"  ended by: {shown}{more}", style="red", markup=False, soft_wrap=True)


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
    changes = [
        (event.step, words(event))
        for kind, words in (("modules_changed", _modules_changed), ("optimizer_changed", _optimizer_changed))
        for event in store.events(run.id, kind=kind, limit=_CHANGES)
    ]
    for _, line in sorted(changes):
        out.print(f"  {line}", markup=False)


def _print_streams(out: "Console", layouts: "Iterable[Layout]") -> None:
    """Print a line per subject; several streams of one subject are counted together."""
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
    names = ", ".join(map(str, before)) if isinstance(before, list) else ""
    return f"optimizer changed at step {event.step}: {event.data.get('optimizer_kind')} replaced {names}"


def _modules_changed(event: "Event") -> str:
    from ..storage import display_site

    sites, count = event.data.get("sites"), event.data.get("count")
    named = [display_site(str(site)) for site in sites] if isinstance(sites, list) else []
    more = f" and {count - _SITES} more" if isinstance(count, int) and count > _SITES else ""
    where = ", ".join(named[:_SITES]) + more
    return f"modules changed at step {event.step}: {where}; values from before and after the change form one series"


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

    return Text(run.state_words, style=_STATE_STYLES[run.state_words])


def _worst(run: "Run") -> "Text":
    from rich.text import Text

    if not run.worst:
        return Text("0")
    count = f"1 {run.worst}" if run.findings == 1 else f"{run.findings}, worst: {run.worst}"
    return Text(count, style=_SEVERITY_STYLES[run.worst])


def _tags(run: "Run") -> str:
    return " ".join(f"{key}={value}" for key, value in run.tags.items())


#: Newest events of a rank that are read.
_ALL: Final = 100_000
#: Most sites in the text; the JSON document has all of them (our choice: a line of a terminal).
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Dumped:
    """The whole tensors that a run has dumped.

    Args:
        count: Number of stored tensors; equal ones share a file.
        sites: Their sites, in the order of their arrival.
        subjects: Their subjects.
        first_step: The step of the oldest, -1 without any.
        last_step: The step of the newest.
        steps: First and last step of each consecutive range with stored tensors.
        left_out: How many tensors could not be stored.
        first_left_out: The first step with a tensor that could not be stored, -1 if unknown.
        last_left_out: The last of these steps.
        steps_left_out: First and last of these steps by event; adjacent ranges are merged.
        is_counted: Whether the run has ended, so that the count of left out tensors is final.
        reason: Why tensors were left out; empty if none were.
        folder: The folder of the files; empty if neither store nor configuration name one.
        size_bytes: Size of these files; 0 if they are gone.
    """

    count: int
    sites: tuple[str, ...]
    subjects: tuple[str, ...]
    first_step: int
    last_step: int
    steps: tuple[Span, ...]
    left_out: int
    first_left_out: int
    last_left_out: int
    steps_left_out: tuple[Span, ...]
    is_counted: bool
    reason: str
    folder: str
    size_bytes: int

    def to_text(self) -> str:
        """Return a line of text."""
        from ..storage import display_site

        lost = self._lost()
        if not self.count:
            return f"no whole tensor; {lost}"
        rest = len(self.sites) - _NAMED
        sites = ", ".join(map(display_site, self.sites[:_NAMED])) + (f" and {rest} more sites" if rest > 0 else "")
        when = steps_in_words(self.steps)
        what = f"{self.count} whole tensors ({', '.join(self.subjects)} of {sites}; {when}), {self._location()}"
        return f"{what}; {lost}" if self.left_out else what

    def _lost(self) -> str:
        """Return how many tensors could not be stored, since when and why."""
        if self.first_left_out < 0:
            return f"{self.left_out} were left out: {self.reason}"
        if self.is_counted:
            return f"{self.left_out} were left out ({steps_in_words(self.steps_left_out)}): {self.reason}"
        return f"{self.left_out} or more were left out, from step {self.first_left_out} on: {self.reason}"

    def _location(self) -> str:
        if not self.size_bytes:
            return f"whose files are gone from {self.folder}" if self.folder else "whose files are in another folder"
        return f"{_size(self.size_bytes)} in {self.folder}"


def dumped_of(store: "Store", run: "Run") -> Dumped | None:
    """Return the whole tensors that the run has dumped; None if it dumps none."""
    from ..storage import StoreUnavailable, tensor_files

    stored, lost = _events(store, run, "tensor"), _events(store, run, "tensors_left_out")
    if not stored and not lost:
        return None
    try:
        files = tensor_files(store, run)
    except StoreUnavailable:
        files = None
    return Dumped(
        count=len(stored),
        sites=_distinct(event.site for event in stored),
        subjects=_distinct(str(event.data["subject"]) for event in stored),
        first_step=min((event.step for event in stored), default=-1),
        last_step=max((event.step for event in stored), default=-1),
        steps=merged((event.step, event.step) for event in stored),
        left_out=sum(_numbers(lost, "count")),
        first_left_out=min(_numbers(lost, "first"), default=-1),
        last_left_out=max(_numbers(lost, "first", "last"), default=-1),
        steps_left_out=merged((min(both), max(both)) for event in lost if (both := _numbers([event], "first", "last"))),
        is_counted=run.state in ("finished", "failed"),
        reason=", ".join(_distinct(str(event.data["reason"]) for event in lost)),
        folder="" if files is None else str(files.folder),
        size_bytes=0 if files is None else files.size_bytes(),
    )


def _events(store: "Store", run: "Run", kind: str) -> "list[Event]":
    return [event for rank in run.ranks for event in store.events(run.id, rank=rank, kind=kind, limit=_ALL)]


def _numbers(events: "Iterable[Event]", *names: str) -> list[int]:
    return [number for event in events for name in names if isinstance(number := event.data.get(name), int)]


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000.0:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} GB"
