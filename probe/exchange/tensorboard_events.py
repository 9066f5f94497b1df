"""TensorBoard event files read back: scalars and histograms of any writer, and every series of our own export."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from ...storage import SUBJECTS, Histogram, metric_name
from ..collectors.collector import COLLECTORS
from .importing import ImportedRank, ImportedRun, ImportFailed, importer

_FILES = "*tfevents*"
_RANK = re.compile(r"rank(\d+)")
_CALL = re.compile(r"(?P<site>.*)#(?P<call>\d+)")

_Point = tuple[int, int, float, str, int, str, float]
_COLUMNS = ("step", "micro_step", "time", "site", "call", "metric", "value")


def _is_tensorboard(path: Path) -> bool:
    return "tfevents" in path.name if path.is_file() else any(path.rglob(_FILES))


@importer("tensorboard", recognises=_is_tensorboard)
def read(path: Path) -> Iterator[ImportedRun]:
    """One run for every folder with event files; folders `rank0`, `rank1`, ... are ranks of the run above them.

    Scalars keep their tag as name. Tags of our own export become the series that they were; a run imported from it
    has float32 values, for that is what TensorBoard keeps. Images, texts and other plugins are left out, with a note.
    """
    folders = [path.parent] if path.is_file() else sorted({file.parent for file in path.rglob(_FILES)})
    runs: dict[Path, list[tuple[int, Path]]] = {}
    for folder in folders:
        match = _RANK.fullmatch(folder.name)
        runs.setdefault(folder.parent if match else folder, []).append((int(match[1]) if match else 0, folder))
    root = path.parent if path.is_file() else path
    for folder, ranks in runs.items():
        inside = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else "."
        notes: list[str] = []
        name = root.resolve().name if inside == "." else inside
        only = path if path.is_file() else None
        yield ImportedRun(name, (_rank(rank, place, only, notes) for rank, place in sorted(ranks)), notes=notes)


def _rank(rank: int, folder: Path, only: Path | None, notes: list[str]) -> ImportedRank:
    points: list[_Point] = []
    histograms: list[tuple[int, Histogram]] = []
    left_out: set[str] = set()
    for file in [only] if only else sorted(folder.glob(_FILES)):
        for event in _events(file):
            for value in event.summary.value:
                _take(event, value, points, histograms, left_out)
    if left_out:
        notes.append(f"rank {rank}: left out, for the store has no place for them: {', '.join(sorted(left_out))}")
    return ImportedRank(rank, pd.DataFrame(points, columns=list(_COLUMNS)), tuple(histograms))


def _events(file: Path) -> Iterable[Any]:  # protocol buffers, untyped
    """The events of a file; a tail that was cut off while writing ends it."""
    try:
        yield from EventFileLoader(str(file)).Load()
    except (ValueError, RuntimeError) as error:
        raise ImportFailed(f"{file} is damaged: {error}; remove it to import the others") from error


def _take(event: Any, value: Any, points: list[_Point], drawn: list[tuple[int, Histogram]], left_out: set[str]) -> None:
    plugin = value.metadata.plugin_data.plugin_name
    if plugin == "scalars":
        number = float(tensor_util.make_ndarray(value.tensor).item())
        site, call, metric = _place(value.tag)
        points.append((event.step, 0, event.wall_time, site, call, metric, number))
    elif plugin == "histograms":
        table = np.asarray(tensor_util.make_ndarray(value.tensor), np.float64)
        if len(table):
            edges = np.append(table[:, 0], table[-1, 1])
            drawn.append((event.step, Histogram(value.tag, "activation", edges, np.rint(table[:, 2]).astype(np.int64))))
    elif plugin:
        left_out.add(f"{value.tag} ({plugin})")


def _place(tag: str) -> tuple[str, int, str]:
    """Site, call and metric of a tag: those of our export, else a scalar of that name at the root."""
    parts = tag.split("/")
    if parts[0] in SUBJECTS and parts[0] != "scalar":
        known = {column for entry in COLLECTORS.values() for column in entry.columns}
        for place in (1, 2):
            if len(parts) > place + 1 and parts[place] in known:
                site = "/".join(parts[place + 1 :])
                match = _CALL.fullmatch(site)
                name, call = (match["site"], int(match["call"])) if match else (site, 0)
                return "" if name == "(model)" else name, call, metric_name("/".join(parts[:place]), parts[place])
    return "", 0, tag if parts[0] == "scalar" and len(parts) > 1 else metric_name("scalar", tag)
