"""Indicators from the exchange among ranks: which replicas differ, and each rank's share in a reduction."""

from collections.abc import Iterator

from ...storage import Event
from ..event_fields import as_number, number, numbers, ranks, words

#: Relative misfit of reduced against local gradients below which the shares are trusted; rounding gives 1e-6.
_FITS = 0.05
#: Distance of a share, times the number of ranks, from none and from one.
_NONE, _CLOSE = 0.2, 0.2
#: Relative misfit above which one rank's reduced gradient is wrong, and how many times the least of the others' it must
#: be; rounding in bfloat16 gives 2e-2, on all ranks alike.
_MISFIT, _TIMES = 1e-3, 100.0


def shares(event: Event) -> list[float]:
    """Return each rank's share in the reduced gradient, times the number of ranks: 1 in a mean, n in a sum.

    Empty where the reduced gradient is no combination of the local ones, or fewer than two ranks took part.
    """
    weights = numbers(event, "weights")
    residual = number(event, "residual")
    if len(weights) < 2 or not residual < _FITS or any(weight != weight for weight in weights):
        return []
    return [weight * len(weights) for weight in weights]


def members(event: Event) -> list[int]:
    """Return the ranks that the lists of a reduction speak of, in their order."""
    return ranks(event, "members") or list(range(len(numbers(event, "weights"))))


def is_unreduced(event: Event) -> bool:
    """True when the first rank applies its own gradient alone; ranks that find the same gradient count as one."""
    weights = numbers(event, "weights")
    alike = numbers(event, "local_classes") or [float(place) for place in range(len(weights))]
    if not shares(event) or len(set(alike)) < 2:
        return False
    own = sum(weight for weight, found in zip(weights, alike, strict=True) if found == alike[0])
    others = [weight for weight, found in zip(weights, alike, strict=True) if found != alike[0]]
    return abs(own - 1) < _CLOSE and all(abs(weight) < _NONE / len(weights) for weight in others)


def misfits(event: Event) -> list[int]:
    """Return the ranks whose reduced gradient does not follow from the local ones, while that of others does."""
    residuals = numbers(event, "residuals")
    least = min((residual for residual in residuals if residual == residual), default=float("nan"))
    bound = max(_MISFIT, _TIMES * least)
    found = [rank for rank, residual in zip(members(event), residuals, strict=False) if residual > bound]
    return found if len(found) < len(residuals) else []


def skipped(event: Event) -> list[int]:
    """Return the ranks that have made more forwards for their steps than the least of the others."""
    counts = numbers(event, "forwards")
    least = min((count for count in counts if count == count), default=0.0)
    found = [rank for rank, count in enumerate(counts) if count > least]
    return found if 0 < len(found) < sum(count == count for count in counts) else []


def alone(event: Event) -> list[int]:
    """Return the ranks, other than the first, that apply their own gradient alone while the first applies another."""
    own = event.data.get("weights_elsewhere")
    found: list[int] = []
    if is_unreduced(event):
        return found
    for place, (rank, weights) in enumerate(
        zip(members(event), own if isinstance(own, list | tuple) else (), strict=False)
    ):
        shares_there = weights if isinstance(weights, list | tuple) else ()
        values = [as_number(share) for share in shares_there]
        others = [abs(share) for other, share in enumerate(values) if other != place]
        if place < len(values) and abs(values[place] - 1) < _CLOSE and all(share < _NONE for share in others):
            found.append(rank)
    return found


def wrote(event: Event) -> list[int]:
    """Return the ranks on which something other than a step has written weights, while on others nothing has."""
    counts = numbers(event, "wrote")
    found = [rank for rank, count in enumerate(counts) if count > 0]
    return found if len(found) < len(counts) and all(count == count for count in counts) else []


def dropped(event: Event) -> list[int]:
    """Return the ranks without a share in a reduction in which all others have equal shares."""
    found = shares(event)
    missing = [rank for rank, share in zip(members(event), found, strict=False) if abs(share) < _NONE]
    present = [share for share in found if abs(share) >= _NONE]
    if not missing or not present or is_unreduced(event):
        return []
    return missing if max(present) < (1 + _CLOSE) * min(present) else []


def common_scale(event: Event) -> float:
    """Return the factor of the reduced gradient over the mean; NaN where the ranks' shares differ."""
    found = [share for share in shares(event) if abs(share) >= _NONE]
    if not found or min(found) <= 0 or max(found) > (1 + _CLOSE) * min(found):
        return float("nan")
    return sum(found) / len(found)


def is_part(event: Event) -> bool:
    """True when ranks read one batch and find different gradients: each computes a part, and a sum is no mistake."""
    return event.data.get("same_batch") is True and event.data.get("same_local") is not True


def is_corrupted(event: Event, parameters: int) -> bool:
    """True when replicas differ in few tensors only, after they were equal: wrong bits, not a missing reduction."""
    sites = words(event, "sites")
    compared = max(parameters, int(as_number(event.data.get("of"), 0.0)))
    few = 0 < len(sites) <= max(1, compared // 4) and compared >= 3
    return few and (number(event, "at") > 0 or len(ranks(event, "odd")) == 1)


def repeated(event: Event) -> Iterator[list[int]]:
    """Yield groups of two or more ranks that have the same value and hold copies of the same parameters."""
    values = event.data.get("by_rank")
    values = list(values) if isinstance(values, list | tuple) else []
    parts = numbers(event, "parts") or [0.0] * len(values)
    pairs = list(zip(values, parts, strict=False))
    for pair in dict.fromkeys(pairs):
        group = [rank for rank, other in enumerate(pairs) if other == pair and pair[0] is not None]
        if len(group) > 1:
            yield group
