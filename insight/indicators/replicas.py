"""Indicators from the exchange among ranks: which replicas differ, and each rank's share in a reduction."""

from collections.abc import Iterator

from ...storage import Event
from ..event_fields import as_number, number, numbers, ranks, words

#: Relative misfit of reduced against local gradients below which the shares are trusted; rounding gives 1e-6.
_FITS = 0.05
#: Distance of a share, times the number of ranks, from none and from one.
_NONE, _CLOSE = 0.2, 0.2


def shares(event: Event) -> list[float]:
    """Return each rank's share in the reduced gradient, times the number of ranks: 1 in a mean, n in a sum.

    Empty where the reduced gradient is no combination of the local ones, or fewer than two ranks took part.
    """
    weights = numbers(event, "weights")
    residual = number(event, "residual")
    if len(weights) < 2 or not residual < _FITS or any(weight != weight for weight in weights):
        return []
    return [weight * len(weights) for weight in weights]


def is_unreduced(event: Event) -> bool:
    """True when rank 0 applies its own gradient alone."""
    found = shares(event)
    return bool(found) and abs(found[0] / len(found) - 1) < _CLOSE and all(abs(share) < _NONE for share in found[1:])


def alone(event: Event) -> list[int]:
    """Return the ranks, other than 0, that apply their own gradient alone while rank 0 applies another one."""
    own = event.data.get("weights_elsewhere")
    found: list[int] = []
    if is_unreduced(event):
        return found
    for rank, weights in enumerate(own if isinstance(own, list | tuple) else ()):
        shares_there = weights if isinstance(weights, list | tuple) else ()
        values = [as_number(share) for share in shares_there]
        others = [abs(share) for other, share in enumerate(values) if other != rank]
        if rank < len(values) and abs(values[rank] - 1) < _CLOSE and all(share < _NONE for share in others):
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
    missing = [rank for rank, share in enumerate(found) if abs(share) < _NONE]
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


def is_corrupted(event: Event, parameters: int) -> bool:
    """True when replicas differ in few tensors only, after they were equal: wrong bits, not a missing reduction."""
    sites = words(event, "sites")
    few = 0 < len(sites) <= max(1, parameters // 4) and parameters >= 3
    return few and (number(event, "at") > 0 or len(ranks(event, "odd")) == 1)


def repeated(values: list[str]) -> Iterator[list[int]]:
    """Yield groups of two or more ranks that have the same value."""
    for value in dict.fromkeys(values):
        group = [rank for rank, other in enumerate(values) if other == value]
        if len(group) > 1:
            yield group
