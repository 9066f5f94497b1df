"""The table of exporters, and the iteration over a stored run that feeds each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...storage import Block, Run, StepRecord, Store, metric_name, nearest


class RunExportError(ValueError):
    """The format is unknown, or the folder cannot be written."""


@dataclass(frozen=True, slots=True)
class ExportPoint:
    """One value of one series, as every tabular format wants it."""

    rank: int
    step: int
    micro_step: int
    time: float
    site: str
    call: int
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format: its name, and a function that writes a run into a folder and returns the files it made."""

    name: str
    write: Callable[[Store, Run, Path], list[Path]]


EXPORTERS: Final[dict[str, Exporter]] = {}

_Write = Callable[[Store, Run, Path], list[Path]]


def exporter(name: str) -> Callable[[_Write], _Write]:
    """Return a decorator that registers an exporter."""

    def enter(write: _Write) -> _Write:
        if name in EXPORTERS:
            raise RunExportError(f"the exporter {name!r} is registered twice; give one of them another name")
        EXPORTERS[name] = Exporter(name, write)
        return write

    return enter


def export(store: Store, reference: str, form: str, folder: Path) -> list[Path]:
    """Write a run in the named format and return its files.

    Raises:
        RunExportError: The format is not in the table, or the folder cannot be written.
        RunNotFound: No run answers to the reference.
    """
    if form not in EXPORTERS:
        known = ", ".join(sorted(EXPORTERS))
        raise RunExportError(f"no export format {form!r}{nearest(form, EXPORTERS)}; formats are {known}")
    run = store.find_run(reference)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return EXPORTERS[form].write(store, run, folder)
    except OSError as error:
        raise RunExportError(f"the folder {str(folder)!r} cannot be written: {error.strerror or error}") from error


def points(record: StepRecord, rank: int) -> Iterator[ExportPoint]:
    """Yield every value of a record, scalars first; sites that were not observed are left out."""
    moment = (rank, record.step, record.micro_step, record.time)
    for name, value in record.scalars.items():
        yield ExportPoint(*moment, site="", call=0, metric=metric_name("scalar", name), value=value)
    for block in record.blocks:
        yield from _block_points(block, record, rank)


def _block_points(block: Block, record: StepRecord, rank: int) -> Iterator[ExportPoint]:
    layout, step, micro_step, time = block.layout, record.step, record.micro_step, record.time
    calls = layout.calls or (0,) * len(layout.sites)
    metrics = [metric_name(layout.subject, statistic) for statistic in layout.statistics]
    for row, (site, call) in enumerate(zip(layout.sites, calls, strict=True)):
        if block.present is not None and not block.present[row]:
            continue
        for metric, value in zip(metrics, block.values[row].tolist(), strict=True):
            # by position: one object for every value of the run, and keywords take twice as long
            yield ExportPoint(rank, step, micro_step, time, site, call, metric, value)
