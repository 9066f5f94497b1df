"""Cells that hold cells: one after the other, or just in order."""

from collections.abc import Iterable, Iterator
from typing import Any

from .cell import Cell


class SequentialCell(Cell):
    """Cells applied one after the other; their names are their numbers.

    Args:
        cells: The cells, or one list of them.

    Example:
        >>> SequentialCell(Dense(8, 16), ReLU(), Dense(16, 2))
    """

    def __init__(self, *cells: Cell | Iterable[Cell]) -> None:
        super().__init__()
        _fill(self, cells)

    def construct(self, x: Any) -> Any:
        """Return the output of the last cell; of several, a tuple goes on as one argument."""
        for cell in self._cells.values():
            x = cell(x)
        return x

    def append(self, cell: Cell) -> None:
        """Add the cell after the others."""
        self.insert_child_to_cell(str(len(self)), cell)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def __getitem__(self, index: int) -> Cell:
        return _at(self, index)


class CellList(Cell):
    """Cells in order, called by whoever holds the list; their names are their numbers.

    Args:
        cells: The cells, or one list of them.
    """

    def __init__(self, *cells: Cell | Iterable[Cell]) -> None:
        super().__init__()
        _fill(self, cells)

    def append(self, cell: Cell) -> None:
        """Add the cell after the others."""
        self.insert_child_to_cell(str(len(self)), cell)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def __getitem__(self, index: int) -> Cell:
        return _at(self, index)


def _fill(container: SequentialCell | CellList, cells: tuple[Cell | Iterable[Cell], ...]) -> None:
    for entry in cells:
        for cell in (entry,) if isinstance(entry, Cell) else entry:
            if not isinstance(cell, Cell):
                raise TypeError(f"{type(container).__name__} expects cells, got {type(cell).__name__}")
            container.append(cell)


def _at(container: SequentialCell | CellList, index: int) -> Cell:
    cells = list(container)
    try:
        return cells[index]
    except IndexError:
        raise IndexError(f"{type(container).__name__} has {len(cells)} cells, there is none at {index}") from None
