"""Values of some sites and statistics of a stream, from its chunks and its newest blocks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from ..encoding.layout import unpack_columns
from ..encoding.packed import Packed
from ..schema.streams import Stream
from .chunks import read_archived
from .hot import read_blocks
from .timeline import Timeline


def read_values(
    connection: Connection, one: Stream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values `(columns, records, rows)` and presence `(records, rows)` at full resolution.

    What retention has thinned away is not present.
    """
    late, late_present = read_hot(connection, one, line, columns, rows)
    if not line.archived:
        return late, late_present
    end = line.offset + line.archived
    values, present, _ = read_archived(connection, one, columns, rows, line.offset, end)
    return np.concatenate([values, late], axis=1), np.concatenate([present, late_present])


def read_hot(
    connection: Connection, one: Stream, line: Timeline, columns: Sequence[int], rows: slice = slice(None)
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values and presence of the hot records of a timeline."""
    blocks = Packed.of(())
    if len(line) > line.archived:
        blocks = read_blocks(connection, one.id, int(line.steps[line.archived]), int(line.steps[-1]))
    return unpack_columns(blocks, columns, len(one.layout.sites), rows)
