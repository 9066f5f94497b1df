"""How a router of experts spreads its tokens.

Reference:
    Shazeer et al. 2017, arXiv:1701.06538 (load); Fedus et al. 2022, arXiv:2101.03961, section 2.2 (capacity, dropped
    tokens).
"""

import math
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

#: Mean entropy of a token's probabilities in nats; entropy of the load over the largest possible; largest and smallest
#: load of an expert, 1 when it has its even share; share of assignments beyond the capacity; experts without a token;
#: tokens.
ROUTER: Final = ("entropy", "load_entropy", "max_load", "min_load", "dropped", "unused", "size")
#: Of each expert: its share of the assignments, and its mean probability; NaN where probabilities are not known.
EXPERT: Final = ("load", "probability")

Holds = Literal["logits", "probabilities", "experts"]


def router_statistics(
    scores: NDArray[Any], holds: Holds, *, top_k: int, experts: int | None = None, capacity_factor: float | None = None
) -> tuple[tuple[float, ...], NDArray[np.float64]]:
    """Return the numbers of `ROUTER`, and `(experts, 2)` numbers of `EXPERT`.

    Args:
        scores: `(..., experts)` logits or probabilities of every token, or `(..., top_k)` numbers of chosen experts.
        holds: Which of these.
        top_k: How many experts a token goes to; with `experts` their number is the last axis.
        experts: How many there are, where `scores` does not tell.
        capacity_factor: An expert takes `factor * tokens * top_k / experts` tokens, rounded up, and drops the rest;
            None for experts that take all.

    Raises:
        ValueError: `top_k` is more than there are experts, or the number of experts is not known.
    """
    beliefs: NDArray[np.float64] | None = None
    if holds == "experts":
        chosen = np.asarray(scores).reshape(-1, scores.shape[-1] if scores.ndim > 1 else 1).astype(np.int64)
        if experts is None:
            raise ValueError("a router that holds the chosen experts needs their number: set `experts`")
    else:
        beliefs = np.asarray(scores, np.float64).reshape(-1, scores.shape[-1])
        experts = beliefs.shape[1]
        if not 1 <= top_k <= experts:
            raise ValueError(f"top_k must be from 1 to {experts}, the number of experts, got {top_k}")
        beliefs = _softmax(beliefs) if holds == "logits" else beliefs
        chosen = np.argpartition(-beliefs, top_k - 1, axis=1)[:, :top_k]
    counts = np.bincount(chosen.reshape(-1), minlength=experts).astype(np.float64)
    share = counts / counts.sum() if counts.sum() else np.full(experts, math.nan)
    probability = np.full(experts, math.nan) if beliefs is None or not len(beliefs) else beliefs.mean(0)
    return _of_all(beliefs, counts, share, len(chosen), capacity_factor), np.stack([share, probability], axis=1)


def _of_all(
    beliefs: NDArray[np.float64] | None,
    counts: NDArray[np.float64],
    share: NDArray[np.float64],
    tokens: int,
    capacity_factor: float | None,
) -> tuple[float, ...]:
    experts, assigned = counts.size, float(counts.sum())
    if not assigned:
        return (*(math.nan,) * 5, float(experts), 0.0)
    entropy = math.nan if beliefs is None else float(_entropy(beliefs).mean())
    dropped = 0.0
    if capacity_factor is not None:
        capacity = math.ceil(capacity_factor * assigned / experts)
        dropped = float(np.maximum(counts - capacity, 0.0).sum()) / assigned
    spread = float(_entropy(share[None])[0]) / math.log(experts) if experts > 1 else math.nan
    loads = share * experts
    return entropy, spread, float(loads.max()), float(loads.min()), dropped, float((counts == 0).sum()), float(tokens)


def _entropy(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(rows == 0.0, 0.0, rows * np.log(rows))
    entropies: NDArray[np.float64] = -terms.sum(-1)
    return entropies


def _softmax(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        exponentials = np.exp(rows - rows.max(-1, keepdims=True)) if rows.size else rows
        shares: NDArray[np.float64] = exponentials / exponentials.sum(-1, keepdims=True)
    return shares
