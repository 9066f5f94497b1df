"""Rows of one subject that several optimizers have filled in one step, made one."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..collectors.collector import Rows


def merge_rows(
    before: Mapping[str, Rows], now: Mapping[str, Rows], when_there: Callable[[Callable[[], object]], None]
) -> dict[str, Rows]:
    """Both, where several optimizers fill different rows of one subject in a step.

    Args:
        when_there: Does a work again when promised numbers have arrived.
    """
    merged = dict(before)
    for subject, rows in now.items():
        held = merged.get(subject)
        if held is None or held.present.size != rows.present.size:
            merged[subject] = rows
        else:
            choose = partial(_choose, rows, held, np.empty_like(held.values))
            when_there(choose)
            merged[subject] = Rows(choose(), held.present | rows.present)
    return merged


def _choose(rows: Rows, others: Rows, out: NDArray[np.float64]) -> NDArray[np.float64]:
    """`out`, which has the rows that are present and the others of those that are not."""
    np.copyto(out, np.where(rows.present[:, None], rows.values, others.values))
    return out
