"""Attention where its tensors lie: the same sample and the same numbers as on the host, without waiting for a device.

The definitions are those of `quantities/attention.py`; here they are torch's operations, all of them queued.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...access.tensors import Tensor
from ...quantities.attention import MOST_HEADS, MOST_QUERIES, spread, within
from .parts import may_travel


class Away:
    """Reads attention on a device; the tensors of one call lie on the same."""

    def is_away(self, tensor: Tensor) -> bool:
        """Whether the tensor lies there, whole."""
        return may_travel(tensor)

    def attention(
        self, query: Tensor, key: Tensor, mask: Tensor | None, *, scale: float | None, last_seen: int | None, turn: int
    ) -> Tensor:
        """`(5,)` float64 on the device, the numbers of `ATTENTION`; arguments as `logits_of` takes them."""
        return _of_parts(query, key, mask, scale, last_seen, turn)

    def softmax(self, scores: Tensor, *, scale: float, last_seen: int | None, turn: int) -> Tensor:
        """`(5,)` the same of logits that are there; arguments as `sample_of` takes them."""
        rows = spread(scores.shape[-2], MOST_QUERIES)
        logits = _queries(_heads(scores.detach(), tuple(scores.shape[:-2]), turn), rows) * scale
        return _statistics(_hidden(logits, rows, last_seen))


def _of_parts(
    query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None, last_seen: int | None, turn: int
) -> Tensor:
    lead, rows = tuple(query.shape[:-2]), spread(query.shape[-2], MOST_QUERIES)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    q = _queries(_heads(query.detach(), lead, turn), rows)
    logits = (q @ _heads(key.detach(), lead, turn).transpose(-1, -2).to(torch.float64)) * factor
    if mask is not None:
        logits = _masked(logits, mask.detach(), lead, turn, rows)
    return _statistics(_hidden(logits, rows, last_seen))


def _heads(tensor: Tensor, lead: tuple[int, ...], turn: int) -> Tensor:
    """`(heads, ., .)` of one sample: those that are looked at of the axes `lead`, to which the tensor's broadcast."""
    if not lead:
        return tensor.reshape(1, *tensor.shape[-2:])
    samples = math.prod(lead[:-1])
    sample = np.unravel_index(turn % max(samples, 1), lead[:-1]) if len(lead) > 1 else ()
    heads = spread(lead[-1], MOST_HEADS)
    have = tuple(tensor.shape[:-2])
    if not have:
        return tensor.expand(len(heads), *tensor.shape[-2:])
    own = within(have[:-1], lead[:-1], tuple(int(i) for i in sample))
    return tensor[own].index_select(0, _index(tuple((heads * have[-1] // lead[-1]).tolist()), tensor.device))


def _queries(tensor: Tensor, rows: NDArray[np.int64]) -> Tensor:
    return tensor.index_select(1, _index(tuple(rows.tolist()), tensor.device)).to(torch.float64)


def _masked(logits: Tensor, mask: Tensor, lead: tuple[int, ...], turn: int, rows: NDArray[np.int64]) -> Tensor:
    held = mask.reshape(1, -1) if mask.dim() == 1 else mask
    held = _heads(held, lead, turn)
    if held.shape[-2] > 1:
        held = held.index_select(1, _index(tuple(rows.tolist()), held.device))
    return torch.where(held, logits, -torch.inf) if held.dtype is torch.bool else logits + held.to(torch.float64)


def _hidden(logits: Tensor, rows: NDArray[np.int64], last_seen: int | None) -> Tensor:
    if last_seen is None:
        return logits
    places = torch.arange(logits.shape[-1], device=logits.device)
    later = places > _index(tuple((rows + last_seen).tolist()), logits.device)[:, None]
    return torch.where(later, -torch.inf, logits)


def _statistics(scores: Tensor) -> Tensor:
    """As `attention_statistics` has them."""
    seen = (scores != -torch.inf).sum(-1)
    largest = scores.amax(-1) if scores.shape[-1] else torch.full_like(scores.sum(-1), -torch.inf)
    looks = seen > 0
    away = scores - torch.where(looks, largest, 0.0)[..., None]
    weights = away.exp()
    total = weights.sum(-1)
    entropies = total.log() - torch.where(weights > 0.0, weights * away, 0.0).sum(-1) / total
    entropies = torch.where(largest.isnan(), torch.nan, entropies)
    chooses = seen > 1
    of_heads = torch.where(looks, entropies, 0.0).sum(-1) / looks.sum(-1)
    numbers = torch.stack(
        [
            torch.where(looks, entropies, 0.0).sum() / looks.sum(),
            torch.where(looks.any(-1), of_heads, torch.inf).amin(),
            torch.where(chooses, entropies / seen.to(torch.float64).log(), 0.0).sum() / chooses.sum(),
            torch.where(looks, largest, -torch.inf).amax(),
        ]
    )
    return torch.cat([torch.where(looks.any(), numbers, torch.nan), looks.sum().to(torch.float64)[None]])


@lru_cache(maxsize=256)
def _index(places: tuple[int, ...], device: Any) -> Tensor:
    """The places there, sent from memory that the device reads by itself, so that nobody waits."""
    held = torch.tensor(places, dtype=torch.int64)
    return held if device.type == "cpu" else held.pin_memory().to(device, non_blocking=True)
