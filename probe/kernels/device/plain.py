"""The ten statistics by torch's own operations: for devices and machines that Triton does not serve.

Every operation is queued; none waits for the device. A tensor is read in pieces, so that no copy of it as float64 is
larger than one of them.
"""

from collections.abc import Sequence
from typing import Any

import torch

#: Elements of a piece: 32 MiB as float64. Our choice: small beside any device's memory, large beside a launch.
_PIECE = 1 << 22


def measure_plainly(tensors: Sequence[Any]) -> Any:
    """`(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: Real and dense, of any float, integer or boolean dtype.
    """
    return torch.stack([_row(one.detach()) for one in tensors])


def _row(tensor: Any) -> Any:
    pieces = tensor.reshape(-1).split(_PIECE) if tensor.numel() else ()
    parts = [_part(piece.to(torch.float64)) for piece in pieces]
    if not parts:
        nothing = torch.zeros((), dtype=torch.float64, device=tensor.device)
        return _finished(nothing, nothing, nothing, None, 0)
    table = torch.stack(parts)
    counts, means = table[:, 0], table[:, 1]
    count = counts.sum()
    mean = (counts * means).sum() / count.clamp(min=1)
    away = means - mean
    return _finished(count, mean, (table[:, 2] + counts * away * away).sum(), table, tensor.numel())


def _part(x: Any) -> Any:
    """Count, mean, squares around it, smallest and largest of the finite elements; zeros, NaN and infinities of all."""
    finite = torch.isfinite(x)
    count = finite.sum()
    mean = torch.where(finite, x, 0.0).sum() / count.clamp(min=1)
    away = torch.where(finite, x - mean, 0.0)
    return torch.stack(
        [
            count.to(torch.float64),
            mean,
            (away * away).sum(),
            torch.where(finite, x, torch.inf).amin(),
            torch.where(finite, x, -torch.inf).amax(),
            *(found.sum().to(torch.float64) for found in (x == 0, x.isnan(), x == torch.inf, x == -torch.inf)),
        ]
    )


def _finished(count: Any, mean: Any, squares: Any, table: Any, size: int) -> Any:
    """A row in the order of `STATISTICS`; mean, deviation, norm and extremes of nothing are NaN."""
    nothing = count == 0
    zero = torch.zeros_like(mean)
    low = zero if table is None else table[:, 3].amin()
    high = zero if table is None else table[:, 4].amax()
    of_finite = [
        (squares + count * mean * mean).sqrt(),
        mean,
        (squares / count.clamp(min=1)).sqrt(),
        low,
        high,
    ]
    counts = [zero] * 4 if table is None else list(table[:, 5:].sum(0))
    return torch.stack(
        [torch.where(nothing, torch.nan, one) for one in of_finite] + counts + [torch.full_like(mean, float(size))]
    )
