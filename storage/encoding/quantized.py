"""Blocks as every backend gives them back: each column rounded to its dtype where nothing is lost that matters."""

from collections.abc import Sequence

import numpy as np

from ..records import Block
from .alike import check_alike, fit_float32, partial_presence, runs, stack_values


def quantize(block: Block) -> Block:
    """The block as every backend gives it back: columns rounded to their dtypes, rows that are missing all NaN.

    A column that float32 cannot hold (a value overflows to infinity or falls below the smallest normal number) keeps
    float64; doing it twice changes nothing.
    """
    check_alike([block])
    return quantize_alike([block])[0]


def quantize_alike(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that `check_alike` has seen, each as `quantize` makes it; many at once cost little more than one.

    Args:
        blocks: Of layouts of one `kind`.
    """
    dtypes = blocks[0].layout.dtypes
    values = stack_values(blocks)
    present = partial_presence([one.present for one in blocks])
    for at, flags in present.items():
        values[at, ~flags] = 0.0
    fits = fit_float32(values)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    for run in runs(dtypes, "float32"):
        np.copyto(values[:, :, run], narrow[:, :, run], where=True if fits is None else fits[:, None, run])
    for at, flags in present.items():
        values[at, ~flags] = np.nan
    return [Block(block.layout, values[at], present.get(at)) for at, block in enumerate(blocks)]
