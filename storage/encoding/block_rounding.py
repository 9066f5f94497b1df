"""Rounds blocks and records to the dtypes of their layouts, as every backend returns them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..records import Block, Layout, StepRecord

_F4_MAX = float(np.finfo(np.float32).max)
_F4_TINY = float(np.finfo(np.float32).tiny)
#: The presence of each block, as in `Block`.
Presence = Sequence[NDArray[np.bool_] | None]


def kind(layout: Layout) -> tuple[int, tuple[str, ...]]:
    """Return the key of layouts whose blocks are rounded and packed together: number of sites, dtypes."""
    return len(layout.sites), layout.dtypes


def check_alike(blocks: Sequence[Block]) -> None:
    """Check that blocks of one layout have arrays of its shape.

    Raises:
        StoreError: The layout's tuples differ in length, a dtype is unknown, or an array has another shape.
    """
    layout = blocks[0].layout
    expected = (len(layout.sites), len(layout.statistics))
    if len(layout.dtypes) != expected[1] or (layout.calls and len(layout.calls) != expected[0]):
        raise StoreError(
            f"layout of {layout.subject!r} expects one dtype a statistic and one call a site, got {expected[0]} sites, "
            f"{len(layout.calls)} calls, {expected[1]} statistics, {len(layout.dtypes)} dtypes"
        )
    if unknown := set(layout.dtypes) - {"float32", "float64", "uint64"}:
        raise StoreError(f"layout of {layout.subject!r} has dtypes {sorted(unknown)}; use float32, float64 or uint64")
    if wrong := {block.values.shape for block in blocks} - {expected}:
        raise StoreError(f"block of {layout.subject!r} expects values of shape {expected}, got {wrong.pop()}")
    flags = {block.present.shape for block in blocks if block.present is not None}
    if flags - {expected[:1]}:
        raise StoreError(f"block of {layout.subject!r} expects presence {expected[:1]}, got {flags.pop()}")


def stack_values(blocks: Sequence[Block]) -> NDArray[np.float64]:
    """Return the values of blocks that `check_alike` has seen, `(blocks, sites, statistics)`, a copy."""
    joined = np.concatenate([block.values for block in blocks], dtype=np.float64, casting="unsafe")
    return joined.reshape(len(blocks), *blocks[0].values.shape)


def partial_presence(presence: Presence) -> dict[int, NDArray[np.bool_]]:
    """Return the presence of the blocks that lack a site, by index."""
    return {at: flags for at, flags in enumerate(presence) if flags is not None and not flags.all()}


@lru_cache(maxsize=256)
def column_slices(dtypes: tuple[str, ...], dtype: str) -> list[slice]:
    """Return the columns of a dtype, adjacent ones as one slice: NumPy reads a slice without a copy."""
    slices: list[slice] = []
    for at, name in enumerate(dtypes):
        if name == dtype and slices and slices[-1].stop == at:
            slices[-1] = slice(slices[-1].start, at + 1)
        elif name == dtype:
            slices.append(slice(at, at + 1))
    return slices


def fit_float32(values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Return which columns of `(blocks, sites, statistics)` fit into float32, `(blocks, statistics)`; None if all do.

    In such a column no value overflows or falls below the smallest normal number.
    """
    size = np.abs(values)
    lost = ~((size >= _F4_TINY) & (size <= _F4_MAX))  # or zero, infinite, NaN; most often there is none of these
    if np.count_nonzero(lost):
        lost &= (size != 0.0) & (size < np.inf)
    return np.asarray(~lost.any(axis=1)) if np.count_nonzero(lost) else None


def quantize(block: Block) -> Block:
    """Return the block as every backend returns it: columns rounded to their dtypes, missing rows all NaN.

    A column that float32 cannot hold (a value overflows to infinity or falls below the smallest normal number) keeps
    float64; doing it twice changes nothing.
    """
    check_alike([block])
    return quantize_alike([block])[0]


def quantize_alike(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks that `check_alike` has seen, each as `quantize` makes it; many at once cost little more than one.

    Args:
        blocks: Of layouts of one `kind`.
    """
    dtypes = blocks[0].layout.dtypes
    values = stack_values(blocks)
    present = partial_presence([block.present for block in blocks])
    for at, flags in present.items():
        values[at, ~flags] = 0.0
    fits = fit_float32(values)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    for run in column_slices(dtypes, "float32"):
        np.copyto(values[:, :, run], narrow[:, :, run], where=True if fits is None else fits[:, None, run])
    for at, flags in present.items():
        values[at, ~flags] = np.nan
    return [Block(block.layout, values[at], present.get(at)) for at, block in enumerate(blocks)]


#: A layout's blocks with fewer numbers than this are rounded together with those of others, as in `block_stacks.py`.
_SMALL = 2**13


def round_records(records: Sequence[StepRecord]) -> Iterator[StepRecord | Exception]:
    """Yield each record with values as every backend returns them, or the error for one that cannot be stored."""
    known = _rounded_blocks(records)
    for record in records:
        try:
            yield _rounded(record, known)
        except (StoreError, TypeError, ValueError) as error:
            yield error


def round_record(record: StepRecord) -> StepRecord:
    """Return one record with values as every backend returns them.

    Raises:
        StoreError, TypeError, ValueError: The record cannot be stored.
    """
    return _rounded(record, {})


def _rounded_blocks(records: Sequence[StepRecord]) -> dict[int, Block]:
    """Return rounded blocks by the identity of their originals.

    Layouts with an invalid block are left out: `_rounded` finds the block and raises its error.
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
        step=record.step,
        time=record.time,
        micro_step=record.micro_step,
        skipped=record.skipped,
        blocks=tuple([known.get(id(block)) or quantize(block) for block in record.blocks]),
        scalars={name: float(value) for name, value in record.scalars.items()},
        histograms=record.histograms,
        events=record.events,
        beside=record.beside,
    )
