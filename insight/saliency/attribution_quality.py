"""Judges an explanation: how the score reacts when its most important points are removed or added."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .attribution import Array, Floats, Score, scores, space_of

__all__ = ["Curve", "Localisation", "Stability", "deletion", "faithfulness", "insertion", "localisation", "stability"]


@dataclass(frozen=True, slots=True)
class Curve:
    """Scores while places change, the most important first.

    Args:
        shares: Share of the places that have changed, 0 to 1.
        scores: The score then.
        area: Under the curve, by trapezoids, in units of the score.
    """

    shares: tuple[float, ...]
    scores: tuple[float, ...]
    area: float


def deletion(score: Score, x: Array, importance: Array, *, baseline: ArrayLike = 0.0, steps: int = 20) -> Curve:
    """Return the scores while the most important points are replaced by the baseline; a small area is good.

    Args:
        importance: The space of `x`, or its shape: then of a place all channels count together.

    Reference:
        Petsiuk et al. 2018, arXiv:1806.07421, section 4.2, as `insertion`.
    """
    at = np.asarray(x, np.float64)
    return _curve(score, at, np.broadcast_to(np.asarray(baseline, np.float64), at.shape), importance, steps)


def insertion(score: Score, x: Array, importance: Array, *, baseline: ArrayLike = 0.0, steps: int = 20) -> Curve:
    """Return the scores while the most important points of `x` are put into the baseline; a large area is good."""
    at = np.asarray(x, np.float64)
    return _curve(score, np.broadcast_to(np.asarray(baseline, np.float64), at.shape), at, importance, steps)


def _curve(score: Score, before: Floats, after: Floats, importance: Array, steps: int) -> Curve:
    places = _by_place(importance, before.shape)
    order = np.argsort(-places.ravel(), kind="stable")
    counts = np.unique(np.linspace(0, places.size, steps + 1).round().astype(np.intp))
    rank = np.empty(places.size, np.intp)
    rank[order] = np.arange(places.size)
    changed = rank.reshape(places.shape)[None] < counts.reshape(-1, *(1,) * places.ndim)
    mask = changed.reshape(len(counts), *(1,) * (before.ndim - places.ndim), *places.shape)
    found = scores(score, np.where(mask, after, before))
    shares = counts / places.size
    area = float((np.diff(shares) * (found[1:] + found[:-1]) / 2.0).sum())
    return Curve(tuple(shares.tolist()), tuple(found.tolist()), area)


def faithfulness(
    score: Score,
    x: Array,
    importance: Array,
    *,
    baseline: ArrayLike = 0.0,
    share: float = 0.2,
    subsets: int = 100,
    seed: int = 0,
) -> float:
    """Return how well the importance of random sets of points predicts the effect of removing them: 1 is perfect.

    Args:
        share: Of the places that a set holds.

    Returns:
        -1 to 1; NaN where one of the two is constant.

    Reference:
        Bhatt et al. 2020, arXiv:2005.00631, definition 3.
    """
    at = np.asarray(x, np.float64)
    cover = np.broadcast_to(np.asarray(baseline, np.float64), at.shape)
    places = _by_place(importance, at.shape)
    count = max(1, round(share * places.size))
    rng = np.random.default_rng(seed)
    chosen = np.zeros((subsets, places.size), np.bool_)
    for row in chosen:
        row[rng.choice(places.size, count, replace=False)] = True
    promised = chosen @ places.ravel()
    mask = chosen.reshape(subsets, *(1,) * (at.ndim - places.ndim), *places.shape)
    does = scores(score, at[None])[0] - scores(score, np.where(mask, cover, at))
    spread = float(promised.std() * does.std())
    return (
        float(((promised - promised.mean()) * (does - does.mean())).mean()) / spread if spread > 0.0 else float("nan")
    )


def _by_place(importance: Array, shape: tuple[int, ...]) -> Floats:
    """Return the importance of each point, summed over channels.

    Raises:
        ValueError: Its shape is neither that of the input nor of its space.
    """
    found, space = np.asarray(importance, np.float64), space_of(shape)
    if found.shape == space:
        return found
    if found.shape != shape:
        raise ValueError(f"importance of an input {shape} must have shape {shape} or {space}, got {found.shape}")
    summed: Floats = found.reshape(-1, *space).sum(axis=0)
    return summed


@dataclass(frozen=True, slots=True)
class Localisation:
    """How well a map points at a marked region.

    Args:
        is_hit: Its largest value lies inside.
        energy: Share of its positive values that does; the region's own share of all places is what chance gives.
        rank_share: Share of its largest values, as many as the region has places, that do.
        chance: The region's share of all places.
    """

    is_hit: bool
    energy: float
    rank_share: float
    chance: float


def localisation(importance: Array, region: NDArray[np.bool_]) -> Localisation:
    """Return how well the map points at the region.

    Raises:
        ValueError: Their shapes differ, or the region is empty.

    Reference:
        Zhang et al. 2018, arXiv:1608.00507 (pointing game); Wang et al. 2020, arXiv:1910.01279, section 4.3 (energy);
        Arras et al. 2022, arXiv:2003.07258, eq. 13 (ranks).
    """
    field, marked = np.asarray(importance, np.float64), np.asarray(region, np.bool_)
    if field.shape != marked.shape or not marked.any():
        raise ValueError(f"region expects shape {field.shape} and at least one marked point, got {marked.shape}")
    positive = np.maximum(field, 0.0)
    whole = float(positive.sum())
    largest = np.argsort(-field.ravel(), kind="stable")
    count = int(marked.sum())
    return Localisation(
        bool(marked.ravel()[largest[0]]),
        float(positive[marked].sum()) / whole if whole > 0.0 else float("nan"),
        float(marked.ravel()[largest[:count]].mean()),
        count / marked.size,
    )


@dataclass(frozen=True, slots=True)
class Stability:
    """How far an explanation moves, relative to its own norm; 0 is perfect."""

    largest: float
    mean: float


def stability(
    explain: Callable[[Array], Array],
    x: Array,
    *,
    radius: float,
    samples: int = 10,
    seed: int = 0,
) -> Stability:
    """Return how far the explanation moves when each element of the input moves by at most `radius`.

    Args:
        explain: An input to its map; random explanations need a seed of their own, or their noise counts too.
        radius: In units of the input.

    Returns:
        NaN where the map of `x` is zero.

    Reference:
        Yeh et al. 2019, arXiv:1901.09392, definition 3.1 (maximum sensitivity), by sampling.
    """
    at = np.asarray(x, np.float64)
    here = np.asarray(explain(at), np.float64)
    rng = np.random.default_rng(seed)
    moved = [
        float(np.linalg.norm(np.asarray(explain(at + rng.uniform(-radius, radius, at.shape)), np.float64) - here))
        for _ in range(samples)
    ]
    norm = float(np.linalg.norm(here)) or float("nan")
    return Stability(max(moved) / norm, float(np.mean(moved)) / norm)
