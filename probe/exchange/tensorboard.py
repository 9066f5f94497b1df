"""A run as TensorBoard event files, one folder a rank, readable by TensorBoard itself."""

from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ...storage import Run, Store, display_site
from .registry import Point, exporter, points


@exporter("tensorboard")
def write(store: Store, run: Run, folder: Path) -> list[Path]:
    """One event file a rank under `folder/<run>/rank<k>`; tags read `metric/site`, a repeated call adds `#call`.

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


def _value(point: Point) -> Summary.Value:
    (value,) = scalar_pb(_tag(point), point.value).value
    return value


def _tag(point: Point) -> str:
    if point.metric.startswith("scalar/"):
        return point.metric
    call = f"#{point.call}" if point.call else ""
    return f"{point.metric}/{display_site(point.site)}{call}"
