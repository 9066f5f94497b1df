"""Records as they will be stored: those that wait together are rounded together, layout by layout."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ..errors import StoreError
from ..records import Block, StepRecord
from .alike import check_alike, kind
from .quantized import quantize, quantize_alike

#: Numbers of a layout's blocks that are rounded together with those of others, as in `stacks.py`.
_SMALL = 2**13


def round_records(records: Sequence[StepRecord]) -> Iterator[StepRecord | Exception]:
    """Each record with values as every backend gives them back; in its place the reason why one cannot be stored."""
    known = _rounded_blocks(records)
    for record in records:
        try:
            yield _rounded(record, known)
        except (StoreError, TypeError, ValueError) as error:
            yield error


def round_record(record: StepRecord) -> StepRecord:
    """One record with values as every backend gives them back.

    Raises:
        StoreError, TypeError, ValueError: It cannot be stored.
    """
    return _rounded(record, {})


def _rounded_blocks(records: Sequence[StepRecord]) -> dict[int, Block]:
    """Rounded blocks by the identity of what was rounded.

    Of a layout with a block in which something is wrong there is none: `_rounded` finds out which it is.
    """
    alike: defaultdict[int, list[Block]] = defaultdict(list)
    for record in records:
        for block in record.blocks:
            alike[id(block.layout)].append(block)
    together: defaultdict[object, list[Block]] = defaultdict(list)
    for number, blocks in alike.items():
        with suppress(StoreError, TypeError, ValueError):
            check_alike(blocks)
            is_small = len(blocks) * blocks[0].values.size < _SMALL
            together[kind(blocks[0].layout) if is_small else number] += blocks
    known: dict[int, Block] = {}
    for blocks in together.values():
        with suppress(StoreError, TypeError, ValueError):
            known.update(zip(map(id, blocks), quantize_alike(blocks), strict=True))
    return known


def _rounded(record: StepRecord, known: Mapping[int, Block]) -> StepRecord:
    return StepRecord(  # field by field: `replace` takes four times as long
        record.step,
        record.time,
        record.micro_step,
        record.skipped,
        tuple([known.get(id(block)) or quantize(block) for block in record.blocks]),
        {name: float(value) for name, value in record.scalars.items()},
        record.histograms,
        record.events,
        record.beside,
    )
