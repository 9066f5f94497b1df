"""Reads back stored records, oldest first, as they were written."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from ..encoding.record_codec import read_event, read_histogram
from ..records import Block, Event, Histogram, StepRecord
from ..schema.row_statements import SCALAR, STEP, StoredStream, read_streams, shown_layout
from ..schema.table_definitions import event, histogram
from .archive_chunks import read_values
from .hot_records import read_timeline

#: Records that are read at a time.
WINDOW = 128

_Key = tuple[int, int]


def replay(
    read: Callable[[], AbstractContextManager[Connection]], number: int, first: int, last: int, limit: int | None
) -> Iterator[StepRecord]:
    """Yield the records of recording `number` between two steps; with `limit`, only that many of the newest.

    No transaction is open while the caller works with a record.
    """
    with read() as connection:
        streams = read_streams(connection, number, STEP)
        steps = read_timeline(connection, streams[0].id, first, last).steps if streams else np.empty(0, np.int64)
    at = 0 if limit is None else max(len(steps) - limit, 0)
    while at < len(steps):
        end = min(at + WINDOW, len(steps))
        while end < len(steps) and steps[end] == steps[end - 1]:  # micro-steps of a step stay together
            end += 1
        with read() as connection:
            records = _window(connection, number, int(steps[at]), int(steps[end - 1]))
        extra = len(records) - (end - at)  # a limit may begin between the micro-steps of a step
        yield from records[max(extra, 0) :]
        at = end


def _window(connection: Connection, number: int, first: int, last: int) -> list[StepRecord]:
    """Return the records of a few steps."""
    events, shapes = _events(connection, number, first, last), _histograms(connection, number, first, last)
    blocks: dict[_Key, list[Block]] = {}
    scalars: dict[_Key, dict[str, float]] = {}
    keys: list[_Key] = []
    moments: list[tuple[float, bool]] = []
    for stored in read_streams(connection, number):
        line = read_timeline(connection, stored.id, first, last)
        values, present = read_values(connection, stored, line, range(len(stored.layout.statistics)))
        at = list(zip(line.steps.tolist(), line.micro_steps.tolist(), strict=True))
        if stored.layout.subject == STEP:
            keys = at
            moments = list(zip(line.times.tolist(), (values[0, :, 0] != 0).tolist(), strict=True))
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


def _events(connection: Connection, number: int, first: int, last: int) -> dict[_Key, list[Event]]:
    found: dict[_Key, list[Event]] = {}
    query = (
        select(event.c.step, event.c.micro_step, event.c.data)
        .where(event.c.recording == number, event.c.step.between(first, last))
        .order_by(event.c.id)
    )
    for step, micro_step, text in connection.execute(query):
        found.setdefault((step, micro_step), []).append(read_event(text))
    return found


def _histograms(connection: Connection, number: int, first: int, last: int) -> dict[_Key, list[Histogram]]:
    found: dict[_Key, list[Histogram]] = {}
    table = histogram
    query = (
        select(table.c.step, table.c.micro_step, table.c.site, table.c.subject, table.c.call, table.c.data)
        .where(table.c.recording == number, table.c.step.between(first, last))
        .order_by(table.c.id)
    )
    for step, micro_step, site, subject, call, data in connection.execute(query):
        found.setdefault((step, micro_step), []).append(read_histogram(site, subject, call, data))
    return found
