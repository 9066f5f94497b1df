"""Blocks that are worked on together: which may be, their values in one array, and what is asked of it."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..records import Block, Layout

_F4_MAX = float(np.finfo(np.float32).max)
_F4_TINY = float(np.finfo(np.float32).tiny)
#: Of each block, as in `Block`.
Presence = Sequence[NDArray[np.bool_] | None]


def kind(layout: Layout) -> tuple[int, tuple[str, ...]]:
    """What layouts have in common whose blocks are rounded and packed together: number of sites, dtypes."""
    return len(layout.sites), layout.dtypes


def check_alike(blocks: Sequence[Block]) -> None:
    """Nothing, for blocks of one layout whose arrays have its shape.

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
    """The values of blocks that `check_alike` has seen, `(blocks, sites, statistics)`, a copy."""
    joined = np.concatenate([block.values for block in blocks], dtype=np.float64, casting="unsafe")
    return joined.reshape(len(blocks), *blocks[0].values.shape)


def partial_presence(presence: Presence) -> dict[int, NDArray[np.bool_]]:
    """By block that does not have all sites: which it has."""
    return {at: one for at, one in enumerate(presence) if one is not None and not one.all()}


@lru_cache(maxsize=256)
def runs(dtypes: tuple[str, ...], dtype: str) -> list[slice]:
    """Columns of a dtype, those side by side in one slice: NumPy reads a slice without a copy."""
    runs: list[slice] = []
    for at, one in enumerate(dtypes):
        if one == dtype and runs and runs[-1].stop == at:
            runs[-1] = slice(runs[-1].start, at + 1)
        elif one == dtype:
            runs.append(slice(at, at + 1))
    return runs


def fit_float32(values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which columns of `(blocks, sites, statistics)` float32 holds, `(blocks, statistics)`; None where it holds all.

    Of no value of such a column the size overflows or falls below the smallest normal number.
    """
    size = np.abs(values)
    lost = ~((size >= _F4_TINY) & (size <= _F4_MAX))  # or zero, infinite, NaN; most often there is none of these
    if np.count_nonzero(lost):
        lost &= (size != 0.0) & (size < np.inf)
    return np.asarray(~lost.any(axis=1)) if np.count_nonzero(lost) else None
