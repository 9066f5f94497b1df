"""The streams of scalars: their names stand where sites stand elsewhere, and names that are new begin a new stream."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..records import Layout, StepRecord
from ..schema.streams import EARLIER, SCALAR
from .stacks import Stack


class ScalarStreams:
    """Which stream holds which name.

    Args:
        known: The layouts that are there.
        first: Number of the first stream; that of scalars that join earlier records is `EARLIER`.
    """

    def __init__(self, known: Iterable[Layout], first: int = 0) -> None:
        ours = [one for one in known if one.subject == SCALAR and (one.part >= EARLIER) == (first >= EARLIER)]
        self._by_name = {name: one for one in ours for name in one.sites}
        self._next = max((one.part + 1 for one in ours), default=first)

    def stack(self, records: Sequence[StepRecord]) -> Iterator[Stack]:
        """The scalars of records by stream; names that are not known get one, and are known from now on."""
        kinds = dict.fromkeys(tuple(one.scalars) for one in records)
        for names in kinds:
            self._learn(names)
        layouts = [self._by_name[name] for names in kinds for name in names]
        for layout in {id(one): one for one in layouts}.values():
            rows = [list(map(one.scalars.get, layout.sites)) for one in records]
            at = [place for place, row in enumerate(rows) if row.count(None) < len(row)]
            rows = [rows[place] for place in at]
            present = [np.array([value is not None for value in row]) if None in row else None for row in rows]
            yield Stack(layout, at, np.array(rows, dtype=np.float64)[:, :, None], present)

    def _learn(self, names: tuple[str, ...]) -> None:
        if fresh := tuple(name for name in names if name not in self._by_name):
            layout = Layout(SCALAR, fresh, ("value",), ("float64",), part=self._next)
            self._by_name.update(dict.fromkeys(fresh, layout))
            self._next += 1
