"""Arithmetic of sets of intervals: unions, and which layer of several covers which moments."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["covered", "length", "merged", "outermost"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


#: Times of traces are rounded to nanoseconds: what follows may seem to begin before its predecessor has ended.
_ROUNDING_S: Final = 2e-9


def merged(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Return the union of the intervals as intervals that do not touch, ascending."""
    if not len(start):
        return np.empty(0), np.empty(0)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    return start[first], reach[last]


def length(start: Floats, end: Floats) -> float:
    """Return the length of the union."""
    low, high = merged(start, end)
    return float((high - low).sum())


def covered(span: tuple[float, float], layers: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return for how long each combination of layers covers the span.

    Args:
        layers: Intervals (start, end), which may overlap in a layer.

    Returns:
        `(2 ** layers,)`: entry `c` is the time that is covered by the layers whose bits `c` has; entry 0 by none.
    """
    unions = [merged(np.clip(start, *span), np.clip(end, *span)) for start, end in layers]
    edges = np.unique(np.concatenate([span, *(edge for union in unions for edge in union)]))
    middle = (edges[:-1] + edges[1:]) / 2.0
    code = np.zeros(len(middle), np.int64)
    for layer, (start, end) in enumerate(unions):
        inside = np.searchsorted(start, middle, "right") > np.searchsorted(end, middle, "right")
        code |= inside.astype(np.int64) << layer
    times = np.zeros(1 << len(layers))
    np.add.at(times, code, np.diff(edges))
    return times


def outermost(lane: Integers, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Return which intervals lie in no other of their lane; they come by start, the longer of two first."""
    is_outer = np.zeros(len(start), np.bool_)
    for number in np.unique(lane).tolist():
        here = np.flatnonzero(lane == number)
        reach = np.concatenate([[-np.inf], np.maximum.accumulate(end[here])[:-1]])
        is_outer[here] = (start[here] >= reach - _ROUNDING_S) & (end[here] > reach)
    return is_outer
