"""Measures how the gradient changes with depth: early weight matrices against late ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..running_statistics import Floats, count_before_first, median
from .model_index import ModelIndex
from .record_burst import StackedSubject
from .subject_table import Table

#: Ratios closer to one than this are not reported, and their order is not computed.
_PLAIN = 100.0
#: Fewest matrices with a gradient for a depth profile.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class DepthProfile:
    """Gradients of the first third of the weight matrices against those of the last third.

    Args:
        ratio: Median root mean square of the first third over that of the last; 1 where no two matrices are apart by a
            factor of 100, for then nobody asks by how much.
        matrices: How many matrices had a finite gradient other than zero.
        order: Kendall's tau of their root mean squares with the call order: -1 when each gets less than the one before.
        first: Site of the earliest of them.
        last: Site of the latest.
        jump: The largest factor between two neighbours of different networks, over that between the first and the last;
            near 1 where these are not layers of each other, as an actor and a critic. In logarithms.
    """

    ratio: float
    matrices: int
    order: float
    first: str
    last: str
    jump: float = 0.0


def depth_profile(table: Table, model: ModelIndex) -> DepthProfile | None:
    """Return the depth profile of a table of gradients; None if fewer than four matrices have a gradient."""
    order = model.matrices_in_order(table.rows.sites)
    if len(order) < _FEWEST:
        return None
    if table.stacked is not None and not table.holds_non_finite:
        plain = table.stacked.known("plain depth", order, lambda stacked: _plain(stacked, table.rows.sites, order))[
            table.index
        ]
        if plain is not None:
            return plain
    norms = table.column("l2_norm")[order]
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = norms / np.sqrt(table.column("size")[order])
    if table.is_whole and not table.holds_non_finite:
        low = float(sizes.min())
        if low > 0.0 and float(sizes.max()) < _PLAIN * low:
            return DepthProfile(1.0, len(sizes), 0.0, table.rows.sites[order[0]], table.rows.sites[order[-1]])
    usable = (sizes > 0) & (sizes < np.inf)
    if not table.is_whole or table.holds_non_finite:
        usable &= table.present[order] & ~table.non_finite[order]
    count = np.count_nonzero(usable)
    if count < _FEWEST:
        return None
    if count < len(sizes):
        sizes, order = sizes[usable], order[usable]
    third = max(1, len(sizes) // 3)
    ratio = median(sizes[:third]) / median(sizes[-third:])
    first, last = table.rows.sites[order[0]], table.rows.sites[order[-1]]
    if 1 / _PLAIN < ratio < _PLAIN:
        return DepthProfile(ratio, len(sizes), 0.0, first, last)
    return DepthProfile(
        ratio, len(sizes), _tau(sizes), first, last, _jump(sizes, [table.rows.sites[at] for at in order])
    )


def plain_depths(table: Table, model: ModelIndex, records: int) -> int:
    """Return for how many records, this one first, gradients are similar at all depths or give no profile."""
    order = model.matrices_in_order(table.rows.sites)
    if table.stacked is None:
        return 0
    if len(order) < _FEWEST:
        return records
    found = table.stacked.known("plain depth", order, lambda stacked: _plain(stacked, table.rows.sites, order))
    return min(
        table.finite_for(records),
        count_before_first(np.array([profile is None for profile in found[table.index :][:records]])),
    )


def _jump(sizes: Floats, sites: list[str]) -> float:
    parts = [site.partition(".")[0] for site in sites]
    steps = np.abs(np.diff(np.log(sizes)))
    between = [step for step, before, after in zip(steps, parts, parts[1:], strict=False) if before != after]
    return float(max(between, default=0.0) / max(abs(float(np.log(sizes[-1] / sizes[0]))), 1e-12))


def _tau(values: Floats) -> float:
    signs = np.sign(values[None, :] - values[:, None])
    return float(np.triu(signs, 1).sum()) / (len(values) * (len(values) - 1) / 2)


def _plain(stacked: StackedSubject, sites: list[str], order: NDArray[np.intp]) -> list[DepthProfile | None]:
    """Return the profile of each record in which all matrices are similar; None for other records."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = stacked.columns("l2_norm")[:, order] / np.sqrt(stacked.columns("size")[:, order])
    low = sizes.min(axis=1)
    profile = DepthProfile(1.0, len(order), 0.0, sites[order[0]], sites[order[-1]])
    is_plain = (low > 0.0) & (sizes.max(axis=1) < _PLAIN * low)
    return [profile if is_plain_record else None for is_plain_record in is_plain.tolist()]
