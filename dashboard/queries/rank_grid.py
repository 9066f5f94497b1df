"""Where each rank of a job is drawn: a grid of cells, a block for every host or group, in it the ranks in their order.

Of few groups each has lines of its own below the others; of many each is a column, so that the picture stays low and
its cells wide enough to point at. Where a group has more ranks than its block has cells, a cell holds all that have
one place along another axis, or else some that follow each other.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage.ranks.topology import BLOCKS, MOST_GROUPS, RankAxis, Topology

__all__ = ["RankGrid", "grid_axes", "rank_grid"]

Places = NDArray[np.int64]
#: Cells beside each other in a block, and below each other where groups are columns (our choice: they can be touched on
#: a phone, and read where the groups fill a screen).
_ACROSS, _DOWN = 16, 16
#: Groups up to which each has lines of its own, and lines of all together.
_MOST_BLOCKS: Final = 16
_MOST_LINES: Final = 32
_UNKNOWN: Final = "not known"


@dataclass(frozen=True, slots=True, eq=False)
class RankGrid:
    """The cells of the ranks.

    Args:
        ranks: `(n,)`, the ranks that are drawn.
        x, y: `(n,)`, the cell of each.
        x_names, y_names: What is written at a column or line; empty where nothing is.
        x_title, y_title: What the columns and lines are.
        borders: Lines above which another group begins.
    """

    ranks: Places
    x: Places
    y: Places
    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    x_title: str
    y_title: str
    borders: tuple[int, ...] = ()

    @property
    def cells(self) -> Places:
        """The number of each rank's cell, line by line: `(n,)`."""
        return self.y * len(self.x_names) + self.x

    @property
    def shape(self) -> tuple[int, int]:
        """How many lines and columns there are."""
        return len(self.y_names), len(self.x_names)


def grid_axes(topology: Topology) -> tuple[str, ...]:
    """Return the axes that the blocks can be, the hosts first."""
    return tuple(axis.name for axis in topology.axes if axis.name != BLOCKS)


def rank_grid(topology: Topology, ranks: Places, by: str = "") -> RankGrid:
    """Return where the ranks are drawn.

    Args:
        by: The axis of the blocks; the first one where there is no such.
    """
    axis = _axis_of_blocks(topology, ranks, by)
    blocks = _inside(axis, ranks)
    count = len(axis.names)
    position = _positions(blocks)
    needed = int(position.max(initial=0)) + 1
    are_columns = count > _MOST_BLOCKS
    lines = min(-(-needed // _ACROSS), max(_MOST_LINES // max(count, 1), 1))
    room = _DOWN if are_columns else lines * _ACROSS
    others = [other for other in topology.axes if other.name not in (axis.name, BLOCKS)]
    inner = _inner_axis(others, ranks, position, room, needs_all=needed <= room)
    if needed > room:
        position = _inside(inner, ranks) if inner is not None else position * room // needed
    names = _names_of(position, inner)
    block = "block" if axis.name == BLOCKS else axis.name
    title = inner.name if inner is not None else f"place in the {block}" if _title(axis) else ""
    if are_columns:
        return RankGrid(ranks, blocks, position, axis.names, names, _title(axis), title)
    width = min(len(names), _ACROSS)
    lines = -(-len(names) // width)
    firsts = tuple(name if line == 0 else "" for name in axis.names for line in range(lines))
    borders = tuple(range(lines, count * lines, lines)) if lines > 1 else ()
    columns = names if lines == 1 else ("",) * width
    y = blocks * lines + position // width
    return RankGrid(ranks, position % width, y, columns, firsts, title, _title(axis), borders)


def _axis_of_blocks(topology: Topology, ranks: Places, by: str) -> RankAxis:
    """Return the axis of the blocks with the groups that occur, and one more for ranks of which it is not known."""
    known = [axis for axis in topology.axes if axis.name == by] or list(topology.axes)
    if known:
        axis = known[0].joined()
    elif len(ranks) > MOST_GROUPS:
        axis = Topology(int(ranks.max(initial=-1)) + 1).with_blocks().axes[0]
    else:
        axis = RankAxis(BLOCKS, ("",), np.zeros(int(ranks.max(initial=-1)) + 1, dtype=np.int64))
    groups = np.full(int(ranks.max(initial=-1)) + 1, -1, dtype=np.int64)
    size = min(len(groups), len(axis.groups))
    groups[:size] = axis.groups[:size]
    names = axis.names if (groups[ranks] >= 0).all() else (*axis.names, _UNKNOWN)
    return RankAxis(axis.name, names, np.where(groups < 0, len(axis.names), groups))


def _title(axis: RankAxis) -> str:
    return axis.name if len(axis.names) > 1 or axis.names[0] else ""


def _inside(axis: RankAxis, ranks: Places) -> Places:
    return axis.groups[ranks]


def _positions(blocks: Places) -> Places:
    """Return the place of each rank in its block, in the order of the ranks."""
    order = np.argsort(blocks, kind="stable")
    sizes = np.bincount(blocks) if len(blocks) else np.zeros(0, dtype=np.int64)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    position = np.empty(len(blocks), dtype=np.int64)
    position[order] = np.arange(len(blocks)) - starts
    return position


def _inner_axis(
    others: list[RankAxis], ranks: Places, position: Places, room: int, *, needs_all: bool
) -> RankAxis | None:
    """Return the axis along which the cells of a block lie; None where none does.

    Args:
        needs_all: Whether each rank has a cell of its own, which must be its place along the axis.
    """
    whole = [
        axis for axis in others if len(axis.groups) > int(ranks.max(initial=-1)) and (axis.groups[ranks] >= 0).all()
    ]
    if needs_all:
        return next((axis for axis in whole if np.array_equal(axis.groups[ranks], position)), None)
    return max((axis for axis in whole if 1 < len(axis.names) <= room), key=lambda axis: len(axis.names), default=None)


def _names_of(position: Places, inner: RankAxis | None) -> tuple[str, ...]:
    if inner is not None:
        return inner.names
    return ("",) * (int(position.max(initial=0)) + 1)
