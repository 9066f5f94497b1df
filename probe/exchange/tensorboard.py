"""TensorBoard event files: a run written as one folder a rank, and event files of any writer read back."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from google.protobuf.message import DecodeError
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

from ...storage import SUBJECTS, Event, Histogram, Run, Store, display_site, metric_name
from ...storage.attachments import media_type_of
from ..collectors.collector import COLLECTORS
from ..configuration.sections import MediaSettings
from ..logged_media import MediaLog
from .damaged_files import reading
from .run_export import ExportPoint, exporter, points
from .run_import import ImportedRank, ImportedRun, importer


@exporter("tensorboard")
def write(store: Store, run: Run, folder: Path) -> list[Path]:
    """Write one event file a rank under `folder/<run>/rank<k>`; tags read `metric/site`, repeated calls add `#call`.

    TensorBoard keeps scalars as float32, and so does this export; the CSV export keeps every bit.
    """
    return [_write_rank(store, run, rank, folder / run.id / f"rank{rank}") for rank in run.ranks]


def _write_rank(store: Store, run: Run, rank: int, folder: Path) -> Path:
    writer = EventFileWriter(str(folder))
    try:
        for record in store.replay(run.id, rank=rank):
            values = [_value(point) for point in points(record, rank)]
            event = TensorBoardEvent(wall_time=record.time, step=record.step, summary=Summary(value=values))
            writer.add_event(event)
    finally:
        writer.close()
    return folder


def _value(point: ExportPoint) -> Summary.Value:
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there
        (value,) = scalar_pb(_tag(point), point.value).value
    return value


def _tag(point: ExportPoint) -> str:
    if point.metric.startswith("scalar/"):
        return point.metric
    call = f"#{point.call}" if point.call else ""
    return f"{point.metric}/{display_site(point.site)}{call}"


_FILES = "*tfevents*"
_RANK = re.compile(r"rank(\d+)")
_CALL = re.compile(r"(?P<site>.*)#(?P<call>\d+)")

_Point = tuple[int, int, float, str, int, str, float]
_COLUMNS = ("step", "micro_step", "time", "site", "call", "metric", "value")


def _is_tensorboard(path: Path) -> bool:
    return "tfevents" in path.name if path.is_file() else any(path.rglob(_FILES))


@importer("tensorboard", recognises=_is_tensorboard)
def read(path: Path) -> Iterator[ImportedRun]:
    """Yield one run for each folder with event files; folders `rank0`, `rank1`, ... are ranks of the run above them.

    Scalars keep their tag as name. Tags of our own export become the series that they were; a run imported from it
    has float32 values, for that is what TensorBoard keeps. Images and sounds are taken within the bounds of `media`;
    texts and other plugins are left out, with a note.
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
        yield ImportedRun(
            name, (_rank(rank, rank_folder, only, notes) for rank, rank_folder in sorted(ranks)), notes=notes
        )


def _rank(rank: int, folder: Path, only: Path | None, notes: list[str]) -> ImportedRank:
    taken = _Taken()
    for file in [only] if only else sorted(folder.glob(_FILES)):
        with reading(file, "is no event file of TensorBoard, or damaged; name its format, or remove it", DecodeError):
            event = None
            for event in EventFileLoader(str(file)).Load():  # a truncated tail ends it
                for value in event.summary.value:
                    taken.take(event, value)
            if event is None and (size := file.stat().st_size):
                raise ValueError(f"no whole event in its {size} bytes")
    if taken.left_out:
        notes.append(f"rank {rank}: left out, since the store cannot hold them: {', '.join(sorted(taken.left_out))}")
    if taken.beyond:
        notes.append(f"rank {rank}: {taken.beyond:,} images and sounds are beyond the bounds of `media` and left out")
    table = pd.DataFrame(taken.points, columns=list(_COLUMNS))
    return ImportedRank(rank, table, tuple(taken.histograms), tuple(taken.media), source=str(only or folder))


class _Taken:
    """What was read of one rank.

    Attributes:
        left_out: Tags of what the store cannot hold.
        beyond: How many images and sounds were beyond the bounds.
    """

    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.histograms: list[tuple[int, Histogram]] = []
        self.media: list[tuple[float, Event]] = []
        self.left_out: set[str] = set()
        self.beyond = 0
        self._log = MediaLog(MediaSettings())

    def take(self, event: TensorBoardEvent, value: Summary.Value) -> None:
        """Add one value of an event."""
        plugin = value.metadata.plugin_data.plugin_name
        if plugin == "scalars":
            number = float(tensor_util.make_ndarray(value.tensor).item())
            site, call, metric = _parsed_tag(value.tag)
            self.points.append((event.step, 0, event.wall_time, site, call, metric, number))
        elif plugin == "histograms":
            self.histograms += [(event.step, histogram) for histogram in _histograms(value)]
        elif plugin in ("images", "audio"):
            self._take_media(event, value, plugin)
        elif plugin:
            self.left_out.add(f"{value.tag} ({plugin})")

    def _take_media(self, event: TensorBoardEvent, value: Summary.Value, plugin: str) -> None:
        """Add the files of a value: of images after their width and height, of sounds in the first of two columns."""
        entries = tensor_util.make_ndarray(value.tensor)
        files = entries.reshape(-1)[2:] if plugin == "images" else entries.reshape(len(entries), -1)[:, 0]
        name = value.tag.removesuffix("/image_summary").removesuffix("/audio_summary")
        for file in files:
            kind = media_type_of(file) if isinstance(file, bytes) else None
            if kind is None:
                self.left_out.add(f"{value.tag} ({plugin} of an unknown format)")
                continue
            found = self._log.file(name, file, kind, event.step, value.metadata.summary_description)
            self.media += [(event.wall_time, kept) for kept in found]
            self.beyond += not found


def _histograms(value: Summary.Value) -> Iterator[Histogram]:
    """Yield the histogram of a value unless it is empty; its rows are left edge, right edge and count of a bin.

    Raises:
        ValueError: The rows are none.
    """
    table = np.asarray(tensor_util.make_ndarray(value.tensor), np.float64)
    if not len(table):
        return
    if table.ndim != 2 or table.shape[1] != 3 or not np.isfinite(table[:, 2]).all() or not (table[:, 2] >= 0).all():
        raise ValueError(f"histogram {value.tag[:40]!r} expects rows of two edges and a count, got shape {table.shape}")
    if table[:, 2].max() >= 2**63 or not (np.diff(edges := np.append(table[:, 0], table[-1, 1])) >= 0).all():
        raise ValueError(f"histogram {value.tag[:40]!r} expects ascending edges and counts below 2^63")
    yield Histogram(value.tag, "activation", edges, np.rint(table[:, 2]).astype(np.int64))


def _parsed_tag(tag: str) -> tuple[str, int, str]:
    """Return site, call and metric of a tag: those of our export, else a scalar of that name at the root."""
    parts = tag.split("/")
    if parts[0] in SUBJECTS and parts[0] != "scalar":
        known = {column for entry in COLLECTORS.values() for column in entry.columns}
        for position in (1, 2):
            if len(parts) > position + 1 and parts[position] in known:
                site = "/".join(parts[position + 1 :])
                match = _CALL.fullmatch(site)
                name, call = (match["site"], int(match["call"])) if match else (site, 0)
                return "" if name == "(model)" else name, call, metric_name("/".join(parts[:position]), parts[position])
    return "", 0, tag if parts[0] == "scalar" and len(parts) > 1 else metric_name("scalar", tag)
