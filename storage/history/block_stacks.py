"""Stacks of blocks: the blocks of one layout of several records, which are written together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..encoding.block_packing import PackedBlocks, pack_stacks
from ..encoding.block_rounding import check_alike, kind, stack_values
from ..records import Block, Layout, StepRecord
from ..schema.row_statements import EARLIER, SCALAR, STEP_LAYOUT, earlier_layout


@dataclass(frozen=True, slots=True, eq=False)
class BlockStack:
    """The blocks of one layout.

    Args:
        at: Index of the record of each block.
        values: `(blocks, sites, statistics)`.
        present: The presence of each block, as in `Block`.
    """

    layout: Layout
    at: list[int]
    values: NDArray[np.float64]
    present: list[NDArray[np.bool_] | None]


#: Stacks with fewer numbers than this are packed together with others; larger ones would only leave the cache.
_SMALL = 2**13


def is_empty(block: Block) -> bool:
    """Return whether no site of the block was observed; such a block is not stored."""
    return block.present is not None and not block.present.any()


def stack_steps(records: Sequence[StepRecord]) -> Iterator[BlockStack]:
    """Yield the stack of the step stream, which says for every record whether the step was skipped."""
    if records:
        skipped = np.array([float(record.skipped) for record in records])
        yield BlockStack(STEP_LAYOUT, list(range(len(records))), skipped[:, None, None], [None] * len(records))


def stack_blocks(records: Sequence[StepRecord], *, is_earlier: bool = False) -> Iterator[BlockStack]:
    """Yield the blocks of records by layout, in the order of the layouts' first blocks; leave out empty ones.

    Args:
        is_earlier: Whether they join stored records, which puts them into streams of their own.
    """
    alike: dict[int, list[tuple[int, Block]]] = {}
    for at, record in enumerate(records):
        for block in record.blocks:
            if not is_empty(block):
                alike.setdefault(id(block.layout), []).append((at, block))
    for pairs in alike.values():
        blocks = [block for _, block in pairs]
        check_alike(blocks)
        layout = earlier_layout(blocks[0].layout) if is_earlier else blocks[0].layout
        yield BlockStack(layout, [at for at, _ in pairs], stack_values(blocks), [block.present for block in blocks])


def pack(stacks: Sequence[BlockStack]) -> list[PackedBlocks]:
    """Return the blocks of each stack as bytes."""
    together: dict[object, list[int]] = {}
    for number, stack in enumerate(stacks):
        together.setdefault(kind(stack.layout) if stack.values.size < _SMALL else number, []).append(number)
    packed: dict[int, PackedBlocks] = {}
    for numbers in together.values():
        few = [stacks[number] for number in numbers]
        dtypes = few[0].layout.dtypes
        packed.update(zip(numbers, pack_stacks(dtypes, [x.values for x in few], [x.present for x in few]), strict=True))
    return [packed[number] for number in range(len(stacks))]


class ScalarStreams:
    """The stream of each scalar.

    Args:
        known: The layouts of the recording.
        first: Part of the first stream; `EARLIER` for scalars that join stored records.
    """

    def __init__(self, known: Iterable[Layout], first: int = 0) -> None:
        of_scalars = (layout for layout in known if layout.subject == SCALAR)
        ours = [layout for layout in of_scalars if (layout.part >= EARLIER) == (first >= EARLIER)]
        self._by_name = {name: layout for layout in ours for name in layout.sites}
        self._next = max((layout.part + 1 for layout in ours), default=first)

    def stack(self, records: Sequence[StepRecord]) -> Iterator[BlockStack]:
        """Yield the scalars of records by stream; add a stream for new names."""
        kinds = dict.fromkeys(tuple(record.scalars) for record in records)
        for names in kinds:
            self._learn(names)
        layouts = [self._by_name[name] for names in kinds for name in names]
        for layout in {id(layout): layout for layout in layouts}.values():
            rows = [list(map(record.scalars.get, layout.sites)) for record in records]
            at = [position for position, row in enumerate(rows) if row.count(None) < len(row)]
            rows = [rows[position] for position in at]
            present = [np.array([value is not None for value in row]) if None in row else None for row in rows]
            yield BlockStack(layout, at, np.array(rows, dtype=np.float64)[:, :, None], present)

    def _learn(self, names: tuple[str, ...]) -> None:
        if fresh := tuple(name for name in names if name not in self._by_name):
            layout = Layout(SCALAR, fresh, ("value",), ("float64",), part=self._next)
            self._by_name.update(dict.fromkeys(fresh, layout))
            self._next += 1
