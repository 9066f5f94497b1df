"""The table of importers, and the way of what they read into a store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pandas as pd

from ...storage import Histogram, Run, Store, nearest
from ...storage.records import Json
from .assemble import records

__all__ = ["IMPORTERS", "ImportFailed", "ImportedRank", "ImportedRun", "Importer", "import_runs", "importer"]

_RECORDS_AT_ONCE = 256


class ImportFailed(ValueError):
    """Nothing at the path can be imported, or what is there is damaged."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedRank:
    """What one process recorded.

    Args:
        points: Columns `step, micro_step, time, site, call, metric, value`; a row a value, in any order.
        histograms: `(step, histogram)`, in any order.
    """

    rank: int
    points: pd.DataFrame
    histograms: tuple[tuple[int, Histogram], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ImportedRun:
    """One run that another tool recorded.

    Args:
        ranks: Read one at a time, so that only one is in memory.
        notes: What could not be taken over, and why, one line each.
    """

    name: str
    ranks: Iterator[ImportedRank]
    tags: Mapping[str, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Importer:
    """A format.

    Args:
        recognises: Whether the path holds this format; cheap, and without an error for any path.
        read: The runs at the path.
    """

    name: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Iterator[ImportedRun]]


IMPORTERS: Final[dict[str, Importer]] = {}

_Read = Callable[[Path], Iterator[ImportedRun]]


def importer(name: str, *, recognises: Callable[[Path], bool]) -> Callable[[_Read], _Read]:
    """A decorator that enters a reader into the table of importers."""

    def enter(read: _Read) -> _Read:
        if name in IMPORTERS:
            raise ImportFailed(f"the importer {name!r} is registered twice; give one of them another name")
        IMPORTERS[name] = Importer(name, recognises, read)
        return read

    return enter


def import_runs(
    store: Store, path: Path, *, form: str | None = None, name: str | None = None
) -> tuple[tuple[Run, tuple[str, ...]], ...]:
    """The runs that were written into the store, each with notes on what could not be taken over.

    Args:
        path: A file or a folder of another tool, or of `mindscope export`.
        form: A name of the table; by default the one that recognises the path.
        name: What the run is called; by default what the files say. With several runs it goes in front.

    Raises:
        ImportFailed: The format is unknown, nothing recognises the path, or what is there cannot be read.
    """
    if not path.exists():
        raise ImportFailed(f"{str(path)!r} does not exist; give a file or a folder to import")
    chosen = _chosen(path, form)
    try:
        found = list(chosen.read(path))
        if not found:
            raise ImportFailed(f"{str(path)!r} holds no {chosen.name} data that could be imported")
        named = [_named(run, name, len(found)) for run in found]
        return tuple(
            (_write(store, run, title, chosen.name), tuple(run.notes)) for run, title in zip(found, named, strict=True)
        )
    except OSError as error:
        raise ImportFailed(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


def _chosen(path: Path, form: str | None) -> Importer:
    known = ", ".join(sorted(IMPORTERS))
    if form is not None:
        if form not in IMPORTERS:
            raise ImportFailed(f"no import format {form!r}{nearest(form, IMPORTERS)}; formats are {known}")
        return IMPORTERS[form]
    for candidate in IMPORTERS.values():
        if candidate.recognises(path):
            return candidate
    raise ImportFailed(f"nothing at {str(path)!r} looks like {known}; name the format if you know it")


def _named(run: ImportedRun, name: str | None, count: int) -> str:
    if name is None:
        return run.name
    return name if count == 1 else f"{name}/{run.name}"


def _write(store: Store, run: ImportedRun, name: str, form: str) -> Run:
    """The run in the store; what was written before an error stays, marked as failed."""
    run_id = None
    for part in run.ranks:
        writer = store.begin_run(
            name,
            kind="imported",
            framework=form,
            rank=part.rank,
            run_id=run_id,
            tags=run.tags if run_id is None else None,
        )
        run_id = writer.run.id
        try:
            waiting = []
            for record in records(part.points, part.histograms):
                waiting.append(record)
                if len(waiting) == _RECORDS_AT_ONCE:
                    writer.write(waiting)
                    waiting = []
            writer.write(waiting)
            while writer.maintain():
                pass
        except BaseException as error:
            writer.close("failed", f"import ended early: {error}")
            raise
        writer.close()
    if run_id is None:
        raise ImportFailed(f"run {run.name!r} holds no values that could be imported")
    return store.find_run(run_id)
