"""`mindscope diagnose RUN` runs the rules over the stored records and reports what went wrong first."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .diagnose_all import diagnose_all
from .failures import STORE_UNREADABLE, WrongUse
from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from ..insight import Diagnosis
    from ..storage import Run, Store

#: A finished run without any of these metrics or subjects has recorded no step of an optimizer.
_OF_A_STEP: Final = {"gradient", "weight", "update", "optimizer", "scalar/learning_rate", "scalar/step_seconds"}


def diagnose(
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="SEVERITY", help="Exit with 1 on findings of this severity or worse.")
    ] = "",
    reference: Annotated[
        str, typer.Option("--reference", metavar="RUN", help="A run that went well: a deviation from it is a finding.")
    ] = "",
    reference_store: Annotated[
        str, typer.Option("--reference-store", metavar="URL", help="The store of the reference, if not that of RUN.")
    ] = "",
    write: Annotated[bool, typer.Option("--write", help="Write the findings into the store.")] = False,
    watch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Only report where this holds in series and dumped tensors; may be repeated.",
        ),
    ] = None,
    every_run: Annotated[bool, typer.Option("--all", help="Diagnose every run of the store, a line each.")] = False,
    workers: Annotated[
        str,
        typer.Option(
            "--workers",
            metavar="N|URL",
            help="With --all: processes (-1 for one a core), or dask://host:8786 or ray://host:10001.",
        ),
    ] = "1",
) -> int:
    """Report what went wrong in a run: root causes first, each with its evidence and what to do."""
    severities = _at_least(fail_on)
    if every_run:
        if run != "latest" or reference or watch:
            raise WrongUse("--all diagnoses each run alone; leave out RUN, --reference and --watch")
        return diagnose_all(store, workers, write=write, as_document=as_document, severities=severities)
    if workers != "1":
        raise WrongUse("--workers spreads the runs of --all; add --all")
    from ..insight import render_json

    if watch:
        return _watched(run, store, watch, as_document, severities)
    if write and reference:
        raise WrongUse("--write stores findings of the run alone; leave out --write or --reference")
    with open_existing(store) as opened:
        described = opened.find_run(run)
        chosen = described.id
        found = _diagnosed(opened, chosen, reference, reference_store, write=write)
        has_steps = bool(found.damage) or _has_steps(described, opened.metrics(chosen))
    if as_document:
        print_json(render_json(found))
    else:
        print(_report(found, described.kind, has_steps=has_steps))
    is_bad = any(finding.severity in severities for finding in found.findings)
    return STORE_UNREADABLE if found.damage else int(is_bad)


def _diagnosed(store: "Store", run: str, reference: str, reference_store: str, *, write: bool) -> "Diagnosis":
    from ..insight import diagnose as diagnosis_of
    from ..insight.compare import diagnose_against

    if not reference:
        return diagnosis_of(store, run, write=write, on_damage="log")
    with ExitStack() as stack:
        other = stack.enter_context(open_existing(reference_store)) if reference_store else store
        good = other.find_run(reference)
        if other is store and good.id == run:
            raise WrongUse(f"run {good.name!r} cannot be its own reference; name another one")
        return diagnose_against((store, other), (store.find_run(run), good))


def _has_steps(run: "Run", metrics: tuple[str, ...]) -> bool:
    """Return whether a step of an optimizer was recorded; of a run that ended early, whether anything was."""
    if run.last_step > 0 or run.state != "finished":
        return bool(metrics)
    return any(metric in _OF_A_STEP or metric.partition("/")[0] in _OF_A_STEP for metric in metrics)


def _report(found: "Diagnosis", kind: str, *, has_steps: bool) -> str:
    """Return the text of the diagnosis; for a run without a step, do not list the rules that could not run."""
    from ..insight import render_text

    if has_steps or not found.reasons:
        return render_text(found)
    if kind == "evaluation" and not found.findings:
        return f"{found.run}: an evaluation, not a training; `mindscope show {found.run}` lists its outcomes"
    bare = replace(found, reasons={}, judgement=replace(found.judgement, reasons=()))
    if found.root_causes and found.state in ("failed", "crashed"):  # they tell why there is none
        return render_text(bare)
    return (
        f"{render_text(bare)}\n\nno step of a training was recorded, so {len(found.reasons)} rules could not run: did "
        f"the watched optimizer step, with the model in training mode?"
    )


def _watched(run: str, store: str, conditions: list[str], as_document: bool, severities: tuple[str, ...]) -> int:
    """Print where conditions hold in a stored run; return the exit code."""
    from ..insight.diagnosis_report import finding_to_json
    from ..insight.stored_watchpoints import check_names, watch_dumps, watch_series
    from ..storage import tensor_files

    with open_existing(store) as opened:
        chosen = opened.find_run(run)
        check_names(opened, chosen, conditions)
        found = list(watch_series(opened, chosen, conditions))
        if opened.events(chosen.id, kind="tensor", limit=1):
            found += watch_dumps(opened, chosen, tensor_files(opened, chosen), conditions)
    if as_document:
        print_json({"run": chosen.id, "findings": [finding_to_json(finding) for finding in found]})
    else:
        lines = (
            f"step {finding.step}, {finding.site or 'the run'}, {finding.metric}: {finding.explanation}"
            for finding in found
        )
        print("\n".join(lines) or "the conditions hold nowhere in the recorded data")
    return int(any(finding.severity in severities for finding in found))


def _at_least(severity: str) -> tuple[str, ...]:
    from ..storage import SEVERITIES, nearest

    if not severity:
        return ()
    words: tuple[str, ...] = SEVERITIES
    if severity not in words:
        raise WrongUse(f"--fail-on expects one of {', '.join(words)}, got {severity!r}{nearest(severity, words)}")
    return words[words.index(severity) :]
