"""What several records hold of one layout, side by side: they are written together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..encoding.alike import check_alike, kind, stack_values
from ..encoding.layout import pack_stacks
from ..encoding.packed import Packed
from ..records import Block, Layout, StepRecord
from ..schema.streams import STEP_LAYOUT, earlier_layout


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The blocks of one layout.

    Args:
        at: Of which of the records each is.
        values: `(blocks, sites, statistics)`.
        present: Of each block, as in `Block`.
    """

    layout: Layout
    at: list[int]
    values: NDArray[np.float64]
    present: list[NDArray[np.bool_] | None]


#: Numbers of a stack that is packed together with others: beyond these there is nothing to share, and caches to leave.
_SMALL = 2**13


def is_empty(block: Block) -> bool:
    """True when no site of the block was observed; such a block says nothing and is not stored."""
    return block.present is not None and not block.present.any()


def stack_steps(records: Sequence[StepRecord]) -> Iterator[Stack]:
    """Whether each step was skipped: every record is in this stream."""
    if records:
        skipped = np.array([float(one.skipped) for one in records])
        yield Stack(STEP_LAYOUT, list(range(len(records))), skipped[:, None, None], [None] * len(records))


def stack_blocks(records: Sequence[StepRecord], *, is_earlier: bool = False) -> Iterator[Stack]:
    """The blocks of records by layout, in the order in which these first come; empty ones say nothing and are left out.

    Args:
        is_earlier: They join records that are there, and stand in streams of their own.
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
        yield Stack(layout, [at for at, _ in pairs], stack_values(blocks), [block.present for block in blocks])


def pack(stacks: Sequence[Stack]) -> list[Packed]:
    """The blocks of each stack as bytes."""
    together: dict[object, list[int]] = {}
    for number, one in enumerate(stacks):
        together.setdefault(kind(one.layout) if one.values.size < _SMALL else number, []).append(number)
    packed: dict[int, Packed] = {}
    for numbers in together.values():
        few = [stacks[number] for number in numbers]
        dtypes = few[0].layout.dtypes
        packed.update(zip(numbers, pack_stacks(dtypes, [x.values for x in few], [x.present for x in few]), strict=True))
    return [packed[number] for number in range(len(stacks))]
