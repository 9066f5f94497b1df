"""Runs of other tools: the table of importers, and how a long table of values becomes the step records of a store.

A block has a value for every statistic of a site that is present. So sites are grouped by the statistics they have,
and a site that lacks one of its statistics at some step has each of them in a stream of its own: no value is invented.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...storage import Block, Event, Histogram, Layout, Run, StepRecord, Store, nearest, split_metric
from ...storage.records import Json
from ..errors import ImportFailed
from .point_columns import checked_points

__all__ = ["IMPORTERS", "ImportFailed", "ImportedRank", "ImportedRun", "Importer", "import_runs", "importer", "records"]

_ROWS = 1024
_SCALAR = "scalar"


def records(
    points: pd.DataFrame,
    histograms: Sequence[tuple[int, Histogram]] = (),
    events: Sequence[tuple[float, Event]] = (),
) -> Iterator[StepRecord]:
    """Yield the records of one rank, oldest first.

    Args:
        points: Columns `step, micro_step, time, site, call, metric, value`; of values told twice the last counts.
        histograms: `(step, histogram)`.
        events: `(time, event)`.
    """
    keys = ["step", "micro_step", "site", "call", "metric"]
    table = points.drop_duplicates(keys, keep="last").sort_values(["step", "micro_step"], kind="stable")
    parts = {metric: _split(metric) for metric in table["metric"].unique()}
    table = table.assign(
        subject=table["metric"].map({metric: subject for metric, (subject, _) in parts.items()}),
        statistic=table["metric"].map({metric: statistic for metric, (_, statistic) in parts.items()}),
    )
    moments = table.groupby(["step", "micro_step"], sort=True)["time"].max()
    steps = {moment: row for row, moment in enumerate(moments.index)}
    times = {event.step: time for time, event in events}
    for step in ({step for step, _ in histograms} | times.keys()) - {step for step, _ in steps}:
        steps[step, 0] = len(steps)
    table["moment"] = _positions(list(zip(table["step"], table["micro_step"], strict=True)), steps)
    streams = list(_streams(table[table["subject"] != _SCALAR], len(steps)))
    scalars = _scalars(table[table["subject"] == _SCALAR])
    drawn: dict[int, list[Histogram]] = {}
    for step, histogram in histograms:
        drawn.setdefault(step, []).append(histogram)
    happened: dict[int, list[Event]] = {}
    for _, event in events:
        happened.setdefault(event.step, []).append(event)
    for (step, micro_step), row in sorted(steps.items()):
        blocks = tuple(block for stream in streams if (block := stream.block(row)) is not None)
        time = float(moments.get((step, micro_step), times.get(step, np.nan)))
        yield StepRecord(
            int(step),
            time if np.isfinite(time) else 0.0,
            int(micro_step),
            blocks=blocks,
            scalars=scalars.get((step, micro_step), {}),
            histograms=tuple(drawn.pop(step, ())),
            events=tuple(happened.pop(step, ())),
        )


def _split(metric: str) -> tuple[str, str]:
    """Return subject and statistic; the name of a scalar may hold slashes."""
    scalar, _, name = metric.partition("/")
    return (_SCALAR, name) if scalar == _SCALAR and name else split_metric(metric)


class _Stream:
    """All values of one layout: `(moments, sites, statistics)` and which sites were there."""

    def __init__(self, layout: Layout, moments: int) -> None:
        self.layout = layout
        self.values = np.full((moments, len(layout.sites), len(layout.statistics)), np.nan)
        self.present = np.zeros((moments, len(layout.sites)), np.bool_)

    def block(self, row: int) -> Block | None:
        """Return the block of one moment, None where no site was observed."""
        if row >= len(self.values) or not self.present[row].any():
            return None
        present = None if self.present[row].all() else self.present[row]
        return Block(self.layout, self.values[row], present)


def _scalars(table: pd.DataFrame) -> dict[tuple[int, int], dict[str, float]]:
    found: dict[tuple[int, int], dict[str, float]] = {}
    columns = (table[name].tolist() for name in ("step", "micro_step", "statistic", "value"))
    for step, micro_step, name, value in zip(*columns, strict=True):
        found.setdefault((step, micro_step), {})[name] = value
    return found


def _streams(table: pd.DataFrame, moments: int) -> Iterator[_Stream]:
    """Yield the streams of every subject, sites in the order in which they first appear."""
    for subject, rows in table.groupby("subject", sort=False):
        part = 0
        for statistics, sites in _groups(rows):
            for start in range(0, len(sites), _ROWS):
                chosen = sites[start : start + _ROWS]
                yield _filled(str(subject), part, chosen, statistics, rows, moments)
                part += 1


def _groups(rows: pd.DataFrame) -> list[tuple[tuple[str, ...], list[tuple[str, int]]]]:
    """Group sites that share their statistics: `(statistics, [(site, call), ...])`."""
    counts = rows.groupby(["site", "call", "statistic"], sort=False).size().unstack(fill_value=0)
    moments = rows.groupby(["site", "call"], sort=False)["moment"].nunique()
    groups: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    table = dict(zip(counts.index.tolist(), counts.to_numpy(), strict=True))
    for (site, call), total in zip(moments.index.tolist(), moments.tolist(), strict=True):
        seen = table[site, call]
        names = tuple(str(name) for name, count in zip(counts.columns, seen, strict=True) if count)
        is_whole = all(count in (0, total) for count in seen)
        for statistics in (names,) if is_whole else tuple((name,) for name in names):
            groups.setdefault(statistics, []).append((str(site), int(call)))
    return list(groups.items())


def _filled(
    subject: str,
    part: int,
    sites: list[tuple[str, int]],
    statistics: tuple[str, ...],
    rows: pd.DataFrame,
    moments: int,
) -> _Stream:
    calls = tuple(call for _, call in sites)
    dtypes = ("float64",) * len(statistics)
    layout = Layout(subject, tuple(site for site, _ in sites), statistics, dtypes, calls if any(calls) else (), part)
    stream = _Stream(layout, moments)
    moment = rows["moment"].to_numpy()
    site = _positions(
        list(zip(rows["site"], rows["call"], strict=True)), {key: position for position, key in enumerate(sites)}
    )
    statistic = _positions(rows["statistic"].tolist(), {name: position for position, name in enumerate(statistics)})
    is_known = (site >= 0) & (statistic >= 0)
    stream.values[moment[is_known], site[is_known], statistic[is_known]] = rows["value"].to_numpy(np.float64)[is_known]
    stream.present[moment[is_known], site[is_known]] = True
    return stream


def _positions(
    keys: Sequence[object], positions: Mapping[object, int]
) -> NDArray[np.int64]:  # any keys that can be hashed
    """Return the position of every key, -1 for unknown keys."""
    return np.array([positions.get(key, -1) for key in keys], np.int64)


_RECORDS_AT_ONCE = 256
_HIGHEST_RANK: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class ImportedRank:
    """What one process recorded.

    Args:
        points: Columns `step, micro_step, time, site, call, metric, value`; a row a value, in any order.
        histograms: `(step, histogram)`, in any order.
        events: `(time, event)`, in any order.
        source: The file or folder that it comes from, for errors.
    """

    rank: int
    points: pd.DataFrame
    histograms: tuple[tuple[int, Histogram], ...] = ()
    events: tuple[tuple[float, Event], ...] = ()
    source: str = ""


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
    """Return a decorator that registers an importer."""

    def enter(read: _Read) -> _Read:
        if name in IMPORTERS:
            raise ImportFailed(f"the importer {name!r} is registered twice; give one of them another name")
        IMPORTERS[name] = Importer(name, recognises, read)
        return read

    return enter


def import_runs(
    store: Store, path: Path, *, form: str | None = None, name: str | None = None
) -> tuple[tuple[Run, tuple[str, ...]], ...]:
    """Write the runs at the path into the store; return each with notes on what could not be imported.

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
    """Write the run into the store, without empty ranks; what was written before an error stays, marked as failed."""
    run_id = None
    for part in run.ranks:
        points = checked_points(part.points, part.source or f"run {run.name!r}")
        if points.empty and not part.histograms and not part.events:
            run.notes.append(f"rank {part.rank}: left out, since it holds no values")
            continue
        if not 0 <= part.rank <= _HIGHEST_RANK:
            raise ImportFailed(
                f"{part.source or run.name}: a rank is a whole number from 0 to {_HIGHEST_RANK}, got {part.rank}; "
                f"rename the file or folder"
            )
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
            for record in records(points, part.histograms, part.events):
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
