"""The configuration, environment, events and scalars of a run, and all of it as files in one archive."""

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from pydantic_core import to_json

from ...storage import ROOT_SITE, Event, Json, Run, Series
from ..formatting import number
from .reader import Reader

_ALL: Final = 10**9
#: Parts of what a run knows of its host that have a table of their own.
PARTS: Final = ("packages", "git", "devices", "variables")


def flattened(values: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Yield dotted names and values of nested settings, in their order."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def part_of(run: Run, name: str) -> dict[str, Json]:
    """Return one part of the environment as names and values; `machine` holds what has no table of its own."""
    if name == "configuration":
        return dict(flattened(run.config))
    if name == "machine":
        return dict(flattened({key: value for key, value in run.host.items() if key not in PARTS}))
    found = run.host.get(name)
    return dict(flattened(found)) if isinstance(found, dict) else {} if found is None else {name: found}


def events(reader: Reader, run: Run, limit: int = 5000) -> tuple[tuple[int, Event], ...]:
    """Return the newest events of every rank with the rank, by step."""
    found = [(rank, event) for rank in run.ranks for event in _events_of(reader, run.id, rank, limit)]
    return tuple(sorted(found, key=lambda pair: (pair[1].step, pair[1].micro_step, pair[0])))


def _events_of(reader: Reader, run: str, rank: int, limit: int) -> tuple[Event, ...]:
    return reader.cached(run, ("events", rank, limit), lambda store: store.events(run, rank=rank, limit=limit))


def scalar_series(reader: Reader, run: Run, *, limit: int = 1000) -> Iterator[Series]:
    """Yield every scalar of every rank, by name."""
    for rank in run.ranks:
        for metric in reader.all_metrics(run.id, rank=rank):
            if metric.startswith("scalar/"):
                yield reader.series(run.id, ROOT_SITE, metric, rank=rank, limit=limit)


def scalar_rows(reader: Reader, run: Run) -> list[dict[str, object]]:
    """Return one row per scalar and rank: how many points, over which steps, and between which values."""
    return [_row(series) for series in scalar_series(reader, run)]


def _row(series: Series) -> dict[str, object]:
    finite = series.values[np.isfinite(series.values)]
    some = bool(series.total)
    return {
        "name": series.metric.removeprefix("scalar/"),
        "rank": series.rank,
        "points": series.total,
        "first step": int(series.steps[0]) if some else None,
        "last step": int(series.steps[-1]) if some else None,
        "last": number(float(series.values[-1]), 6) if some else "",
        "smallest": number(float(finite.min()), 6) if finite.size else "",
        "largest": number(float(finite.max()), 6) if finite.size else "",
        "not finite": int(series.values.size - finite.size),
    }


def archive(reader: Reader, run: Run) -> bytes:
    """Pack all that the page shows into a ZIP file, every point of every scalar; `mindscope export` writes the rest.

    JSON has no NaN and no infinity: they are the words `NaN`, `Infinity` and `-Infinity`.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr("run.json", _document(run))
        files.writestr("structure.json", _document(reader.structure(run.id)))
        files.writestr("findings.json", _document(reader.findings(run.id)))
        rows = [{"rank": rank, **event.fields()} for rank, event in events(reader, run, _ALL)]
        files.writestr("events.json", _document(rows))
        files.writestr("scalars.csv", _scalars(reader, run))
    return buffer.getvalue()


def _scalars(reader: Reader, run: Run) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("rank", "name", "step", "time", "value"))
    for series in scalar_series(reader, run, limit=_ALL):
        name = series.metric.removeprefix("scalar/")
        columns = zip(series.steps.tolist(), series.times.tolist(), series.values.tolist(), strict=True)
        rows.writerows((series.rank, name, step, repr(at), repr(value)) for step, at, value in columns)
    return text.getvalue()


def _document(value: object) -> bytes:
    return to_json(value, indent=1, inf_nan_mode="strings")
