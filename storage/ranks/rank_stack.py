"""What many ranks recorded at one step, side by side in arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..records import Block, Layout, StepRecord

Counts = NDArray[np.int64]
#: Most sites of a layout.
_MOST_SITES: Final = 1024
#: What the rows of ranks that are put side by side have in common: subject, statistics, dtypes.
_Kind = tuple[str, tuple[str, ...], tuple[str, ...]]
_Row = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class StackedBlock:
    """The blocks of one layout.

    Args:
        values: `(sites, statistics, ranks)`.
        present: `(sites, ranks)`, where the rank has the site; None for everywhere.
    """

    values: NDArray[np.floating[Any]]
    present: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RankStack:
    """The records of many ranks at one step.

    Args:
        ranks: `(ranks,)` int64, ascending.
        time: Unix seconds at the end of the step on the rank that was the last.
        blocks: By layout.
        scalars: By name `(ranks,)`.
        has_scalar: By name `(ranks,)` where a rank lacks the scalar; a name that is not here, all have.
        skipped: Whether most ranks skipped the step.
    """

    step: int
    time: float
    ranks: Counts
    blocks: Mapping[Layout, StackedBlock] = field(default_factory=dict)
    scalars: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    has_scalar: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    micro_step: int = 0
    skipped: bool = False

    def record_of(self, at: int) -> StepRecord:
        """Return the record of the rank at this position."""
        blocks = []
        for layout, stacked in self.blocks.items():
            values = stacked.values[:, :, at].astype(np.float64)
            blocks.append(Block(layout, values, None if stacked.present is None else stacked.present[:, at]))
        scalars = {
            name: float(values[at])
            for name, values in self.scalars.items()
            if name not in self.has_scalar or self.has_scalar[name][at]
        }
        return StepRecord(self.step, self.time, self.micro_step, self.skipped, tuple(blocks), scalars)


class RankStacker:
    """Puts the records of ranks side by side.

    Ranks may have other sites than others, as the stages of a pipeline have. The sites of all ranks together make one
    layout, which only grows, so that a rank that is missing at a step does not make another.
    """

    def __init__(self) -> None:
        self._rows: dict[_Kind, dict[_Row, int]] = {}
        self._layouts: dict[tuple[_Kind, int], list[Layout]] = {}
        self._places: dict[tuple[Layout, int], Counts] = {}

    def stack(self, records: Mapping[int, StepRecord]) -> RankStack:
        """Return the records, by rank, of one step side by side."""
        ranks = sorted(records)
        last = max(records.values(), key=lambda record: record.time)
        scalars, has_scalar = _stacked_scalars([records[rank].scalars for rank in ranks])
        return RankStack(
            step=last.step,
            time=last.time,
            ranks=np.array(ranks, dtype=np.int64),
            blocks=self._blocks([records[rank].blocks for rank in ranks]),
            scalars=scalars,
            has_scalar=has_scalar,
            micro_step=last.micro_step,
            skipped=2 * sum(record.skipped for record in records.values()) > len(ranks),
        )

    def _blocks(self, of_ranks: list[tuple[Block, ...]]) -> dict[Layout, StackedBlock]:
        """Return the stacked blocks of all ranks."""
        by_kind: dict[_Kind, list[tuple[int, Block]]] = {}
        for at, blocks in enumerate(of_ranks):
            for block in blocks:
                layout = block.layout
                by_kind.setdefault((layout.subject, layout.statistics, layout.dtypes), []).append((at, block))
        return {
            layout: stacked
            for kind, blocks in by_kind.items()
            for layout, stacked in self._stacked(kind, blocks, len(of_ranks))
        }

    def _stacked(self, kind: _Kind, blocks: list[tuple[int, Block]], ranks: int) -> list[tuple[Layout, StackedBlock]]:
        """Return layouts and stacked values of blocks `(position of the rank, block)` of one kind."""
        rows = self._rows.setdefault(kind, {})
        first = blocks[0][1].layout
        if len(blocks) == ranks and len(rows) in (0, len(first.sites)) and _are_whole(blocks):
            rows.update(zip(_rows_of(first), range(len(first.sites)), strict=True) if not rows else ())
            if self._layouts_of(kind, rows)[0].sites == first.sites:
                values = np.stack([block.values for _, block in blocks], axis=-1)
                return [(self._layouts_of(kind, rows)[0], StackedBlock(values))]
        for _, block in blocks:
            if (block.layout, len(rows)) not in self._places:
                for key in _rows_of(block.layout):
                    rows.setdefault(key, len(rows))
        values = np.full((len(rows), len(kind[1]), ranks), np.nan)
        present = np.zeros((len(rows), ranks), dtype=np.bool_)
        for at, block in blocks:
            place = self._place(block.layout, rows)
            if block.present is None:
                values[place, :, at], present[place, at] = block.values, True
            else:
                values[place[block.present], :, at] = block.values[block.present]
                present[place[block.present], at] = True
        whole = bool(present.all())
        found = []
        for part, layout in enumerate(self._layouts_of(kind, rows)):
            here = slice(part * _MOST_SITES, (part + 1) * _MOST_SITES)
            found.append((layout, StackedBlock(values[here], None if whole else present[here])))
        return found

    def _place(self, layout: Layout, rows: Mapping[_Row, int]) -> Counts:
        """Return the rows of a layout's sites among those of all ranks."""
        key = layout, len(rows)
        if key not in self._places:
            self._places[key] = np.array([rows[row] for row in _rows_of(layout)], dtype=np.int64)
        return self._places[key]

    def _layouts_of(self, kind: _Kind, rows: Mapping[_Row, int]) -> list[Layout]:
        key = kind, len(rows)
        if key not in self._layouts:
            names = list(rows)
            self._layouts[key] = [
                Layout(
                    kind[0],
                    tuple(site for site, _ in part),
                    kind[1],
                    kind[2],
                    tuple(call for _, call in part) if any(call for _, call in part) else (),
                    number,
                )
                for number, part in enumerate(
                    names[begin : begin + _MOST_SITES] for begin in range(0, len(names), _MOST_SITES)
                )
            ]
        return self._layouts[key]


def _are_whole(blocks: list[tuple[int, Block]]) -> bool:
    """Return whether all blocks have one layout, and every site."""
    layout = blocks[0][1].layout
    return len(layout.sites) <= _MOST_SITES and all(
        (block.layout is layout or block.layout == layout) and block.present is None for _, block in blocks
    )


def _rows_of(layout: Layout) -> list[_Row]:
    return list(zip(layout.sites, layout.calls or (0,) * len(layout.sites), strict=True))


def _stacked_scalars(
    of_ranks: list[Mapping[str, float]],
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.bool_]]]:
    """Return values by name and, for those that not all ranks have, who has them."""
    names = dict.fromkeys(name for scalars in of_ranks for name in scalars)
    values = {name: np.array([scalars.get(name, np.nan) for scalars in of_ranks]) for name in names}
    has = {name: np.array([name in scalars for scalars in of_ranks]) for name in names}
    return values, {name: flags for name, flags in has.items() if not flags.all()}
