"""How attention is spread: entropy and largest logit of a few queries of every head.

One sample of the batch is looked at, another one at every step in turn, with at most sixteen heads and sixteen queries,
both spread evenly. Reading costs the product of these queries with all keys and nothing of the size of the scores.

Reference:
    Zhai et al. 2023, arXiv:2303.06296 (entropy collapse); Dehghani et al. 2023, arXiv:2302.05442, section 2.1 (growth
    of the largest logit).
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..tensor_access import Tensor

Float = NDArray[np.float64]
#: `take(tensor, index)` returns the indexed part of a framework's tensor as an array.
Take = Callable[[Tensor, tuple[object, ...]], NDArray[Any]]

#: Mean entropy of the weights in nats, the smallest mean of a head, the mean share of the largest possible entropy, the
#: largest logit (scaled, masks added), and the number of queries looked at.
ATTENTION: Final = ("entropy", "entropy_min", "relative_entropy", "max_logit", "size")

#: Sampled heads and queries of a call. Our choice.
MOST_HEADS: Final = 16
MOST_QUERIES: Final = 16


def attention_statistics(logits: NDArray[Any]) -> tuple[float, ...]:
    """Return the numbers of `ATTENTION`; NaN where there is none.

    Args:
        logits: `(heads, queries, keys)`, -inf for what may not be looked at; queries that see nothing are left out.
    """
    scores = np.asarray(logits, np.float64)
    seen = (scores != -np.inf).sum(-1)
    largest = scores.max(-1, initial=-np.inf)
    looks = seen > 0
    if not looks.any():
        return (math.nan,) * 4 + (0.0,)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = scores - np.where(looks, largest, 0.0)[..., None]
        weights = np.exp(deviations)
        total = weights.sum(-1)
        entropies = np.log(total) - np.where(weights > 0.0, weights * deviations, 0.0).sum(-1) / total
        shares = entropies / np.log(seen)
        if np.isnan(largest).any():  # the comparison above treated NaN as no weight
            entropies[np.isnan(largest)] = math.nan
    heads = [
        float(entropy[seen_rows].mean()) for entropy, seen_rows in zip(entropies, looks, strict=True) if seen_rows.any()
    ]
    chooses = seen > 1
    return (
        float(entropies[looks].mean()),
        float(np.min(heads)),
        float(shares[chooses].mean()) if chooses.any() else math.nan,
        float(largest[looks].max()),
        float(looks.sum()),
    )


def logits_of(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    *,
    scale: float | None,
    last_seen: int | None,
    take: Take,
    turn: int,
) -> Float:
    """Return `(heads, queries, keys)` logits of a sample of the attention.

    Args:
        query: `(..., heads, queries, features)`.
        key: `(..., heads, keys, features)`; axes in front may be 1, and heads fewer by a factor.
        mask: Broadcastable to `(..., queries, keys)`: of bools, True may be looked at; else added to the logits.
        scale: `1 / sqrt(features)` by default.
        last_seen: The last key that query 0 sees, with one more for every further query; None for all.
        turn: Which sample of the batch, modulo their number.
    """
    lead, count, features = tuple(query.shape[:-2]), query.shape[-2], query.shape[-1]
    rows = spread(count, MOST_QUERIES)
    factor = 1.0 / math.sqrt(features) if scale is None else scale
    picked = []
    for head in _heads(lead, turn):
        q = np.asarray(take(query, (*head, rows)), np.float64)
        k = np.asarray(take(key, within(tuple(key.shape[:-2]), lead, head)), np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = (q @ k.T) * factor
        if last_seen is not None:
            is_later = np.arange(k.shape[0])[None, :] > rows[:, None] + last_seen
            scores[is_later] = -np.inf
        picked.append(scores if mask is None else _masked(scores, mask, lead, head, rows, take))
    return np.stack(picked) if picked else np.empty((0, 0, 0))


def sample_of(scores: Tensor, *, scale: float, last_seen: int | None, take: Take, turn: int) -> Float:
    """Sample `(heads, queries, keys)` of logits that are there: `(..., heads, queries, keys)`."""
    lead, count = tuple(scores.shape[:-2]), scores.shape[-2]
    rows = spread(count, MOST_QUERIES)
    picked = [np.asarray(take(scores, (*head, rows)), np.float64) * scale for head in _heads(lead, turn)]
    found = np.stack(picked) if picked else np.empty((0, 0, 0))
    if last_seen is not None:
        is_later = np.arange(scores.shape[-1])[None, :] > rows[:, None] + last_seen
        found[:, is_later] = -np.inf
    return found


def _masked(
    scores: Float, mask: Tensor, lead: tuple[int, ...], head: tuple[int, ...], rows: NDArray[np.int64], take: Take
) -> Float:
    shape = tuple(mask.shape)
    index: tuple[object, ...] = within(shape[:-2], lead, head)
    if len(shape) > 1:
        index = (*index, rows if shape[-2] > 1 else np.zeros(1, np.int64))
    values = take(mask, index)
    if values.dtype == np.bool_:
        return np.where(values, scores, -np.inf)
    return scores + values.astype(np.float64)


def _heads(lead: tuple[int, ...], turn: int) -> list[tuple[int, ...]]:
    """Index of each head that is looked at: of one sample, evenly spread."""
    if 0 in lead:
        return []
    if not lead:
        return [()]
    samples = math.prod(lead[:-1])
    sample = tuple(int(i) for i in np.unravel_index(turn % samples, lead[:-1])) if len(lead) > 1 else ()
    return [(*sample, int(head)) for head in spread(lead[-1], MOST_HEADS)]


def within(have: tuple[int, ...], lead: tuple[int, ...], head: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of this head in axes that broadcast to those of the queries, or that groups of heads share."""
    behind = len(head) - len(have)
    return tuple(i * size // full for size, full, i in zip(have, lead[behind:], head[behind:], strict=True))


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Return at most this many of the numbers from 0 on, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(np.int64))
