"""The rows of subjects that have one a parameter, cut into blocks without being copied."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Block, Layout
from ..collectors.collector import Rows, View
from ..kernels import FLOAT64
from .columns import MOST_ROWS, column_dtypes

#: Masks that are remembered: every subject may have one of its own.
_MASKS = 64


class TableRows:
    """The layouts of subjects that have one row a parameter; parameters that join later open a further part."""

    def __init__(self) -> None:
        self._layouts: dict[str, list[tuple[int, Layout]]] = {}
        #: By their ids masks that say that every row is there, as they were asked about last.
        self._full: dict[int, NDArray[np.bool_]] = {}

    def take(
        self,
        blocks: list[Block],
        tables: Mapping[str, Rows],
        view: View,
        statistics: Callable[[str], tuple[str, ...]],
    ) -> None:
        """Adds the rows of all subjects cut into blocks of at most 1024, without copying them.

        Args:
            statistics: The columns of a subject; asked when names are new.
        """
        names = view.names
        count = len(names)
        for subject, rows in tables.items():
            layouts = self._layouts.get(subject, ())
            if len(layouts) == 1 and len(layouts[0][1].sites) == count:
                if id(rows.present) in self._full or self._is_full(rows.present):
                    blocks.append(Block(layouts[0][1], rows.values))
                    continue
            else:
                layouts = self._grown(subject, statistics, view)
            if len(layouts) == 1:
                cut = [(layouts[0][1], rows.values, rows.present)]
            else:
                parts = ((layout, slice(start, start + len(layout.sites))) for start, layout in layouts)
                cut = [(layout, rows.values[at], rows.present[at]) for layout, at in parts]
            blocks += [_table_block(*one) for one in cut if one[2].any()]

    def _grown(
        self, subject: str, statistics: Callable[[str], tuple[str, ...]], view: View
    ) -> list[tuple[int, Layout]]:
        """The layouts of a subject, those of names that joined since among them."""
        layouts = self._layouts.setdefault(subject, [])
        covered = sum(len(layout.sites) for _, layout in layouts)
        for start in range(covered, len(view.names), MOST_ROWS):
            columns = statistics(subject)
            dtypes = column_dtypes(columns, wide=bool((view.weights().codes == FLOAT64).any()))
            sites = view.names[start : start + MOST_ROWS]
            layouts.append((start, Layout(subject, sites, columns, dtypes, (), len(layouts))))
        return layouts

    def _is_full(self, present: NDArray[np.bool_]) -> bool:
        """Whether every row is there, which is remembered: tables hand out the same array while it says the same."""
        if present.size and present.all():
            if len(self._full) == _MASKS:
                self._full.clear()
            self._full[id(present)] = present
            return True
        return False


def _table_block(layout: Layout, values: NDArray[np.float64], present: NDArray[np.bool_]) -> Block:
    return Block(layout, values, None if present.all() else present)
