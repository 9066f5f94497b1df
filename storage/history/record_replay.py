"""Reads back stored records, oldest first, as they were written."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from ..damage import Damage, gathering
from ..records import Block, Event, Histogram, StepRecord
from ..schema.ledger import check_count
from ..schema.rare_rows import events_between, histograms_between
from ..schema.row_statements import SCALAR, STEP, StoredStream, read_streams, shown_layout
from .archive_chunks import read_values
from .queries import check_stream
from .timeline import read_timeline

#: Records that are read at a time.
WINDOW = 128

_Key = tuple[int, int]


def replay(
    read: Callable[[], AbstractContextManager[Connection]],
    number: int,
    first: int,
    last: int,
    limit: int | None,
    tell: Callable[[list[Damage]], None] = lambda found: None,
) -> Iterator[StepRecord]:
    """Yield the records of recording `number` between two steps; with `limit`, only that many of the newest.

    No transaction is open while the caller works with a record.

    Args:
        tell: Receives, after the last record, what could not be read.
    """
    with read() as connection, gathering() as found:
        for stored in read_streams(connection, number):
            check_stream(connection, stored)
        streams = read_streams(connection, number, STEP)
        steps = read_timeline(connection, streams[0].id, first, last).steps if streams else np.empty(0, np.int64)
        for table in ("events", "histograms"):
            check_count(connection, number, table)
    at = 0 if limit is None else max(len(steps) - limit, 0)
    while at < len(steps):
        end = min(at + WINDOW, len(steps))
        while end < len(steps) and steps[end] == steps[end - 1]:  # micro-steps of a step stay together
            end += 1
        with read() as connection, gathering() as more:
            records = _window(connection, number, int(steps[at]), int(steps[end - 1]))
        found += [damage for damage in more if damage not in found]
        extra = len(records) - (end - at)  # a limit may begin between the micro-steps of a step
        yield from records[max(extra, 0) :]
        at = end
    if found:
        tell(found)


def _window(connection: Connection, number: int, first: int, last: int) -> list[StepRecord]:
    """Return the records of a few steps."""
    events: dict[_Key, list[Event]] = {}
    for key, added in events_between(connection, number, first, last):
        events.setdefault(key, []).append(added)
    shapes: dict[_Key, list[Histogram]] = {}
    for key, shape in histograms_between(connection, number, first, last):
        shapes.setdefault(key, []).append(shape)
    blocks: dict[_Key, list[Block]] = {}
    scalars: dict[_Key, dict[str, float]] = {}
    keys: list[_Key] = []
    moments: list[tuple[float, bool]] = []
    for stored in read_streams(connection, number):
        line = read_timeline(connection, stored.id, first, last)
        values, present = read_values(connection, stored, line, range(len(stored.layout.statistics)))
        if line.lost is not None:
            present = present & ~line.lost[:, None]
        at = list(zip(line.steps.tolist(), line.micro_steps.tolist(), strict=True))
        if stored.layout.subject == STEP:
            known = present[:, 0].tolist()  # all but what is damaged
            keys = list(compress(at, known))
            moments = list(compress(zip(line.times.tolist(), (values[0, :, 0] != 0).tolist(), strict=True), known))
        elif stored.layout.subject == SCALAR:
            _add_scalars(scalars, at, stored.layout.sites, values[0], present)
        else:
            _add_blocks(blocks, at, stored, values, present)
    return [
        StepRecord(
            step=key[0],
            time=time,
            micro_step=key[1],
            skipped=skipped,
            blocks=tuple(blocks.get(key, ())),
            scalars=scalars.get(key, {}),
            histograms=tuple(shapes.get(key, ())),
            events=tuple(events.get(key, ())),
        )
        for key, (time, skipped) in zip(keys, moments, strict=True)
    ]


def _add_scalars(
    scalars: dict[_Key, dict[str, float]],
    keys: list[_Key],
    names: tuple[str, ...],
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    for key, row, there in zip(keys, values.tolist(), present.tolist(), strict=True):
        found = scalars.setdefault(key, {})
        found.update((name, value) for name, value, seen in zip(names, row, there, strict=True) if seen)


def _add_blocks(
    blocks: dict[_Key, list[Block]],
    keys: list[_Key],
    stored: StoredStream,
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    whole, layout = [bool(row.all()) for row in present], shown_layout(stored.layout)
    for at, key in enumerate(keys):
        block = np.ascontiguousarray(values[:, at].T)
        if whole[at]:
            blocks.setdefault(key, []).append(Block(layout, block))
        elif present[at].any() or not present.shape[1]:
            block[~present[at]] = np.nan
            blocks.setdefault(key, []).append(Block(layout, block, present[at]))
