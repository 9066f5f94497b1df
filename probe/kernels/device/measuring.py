"""The ten statistics on a device: by Triton where it serves the device, else by torch's own operations.

Every operation is queued; none waits for the device. Torch's operations read a tensor in pieces, so that no copy of it
as float64 is larger than one of them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import torch

#: Elements of a piece: 32 MiB as float64. Our choice: small beside any device's memory, large beside a launch.
_PIECE = 1 << 22


def measure_plainly(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: Real and dense, of any float, integer or boolean dtype.
    """
    return torch.stack([_row(tensor.detach()) for tensor in tensors])


def _row(tensor: torch.Tensor) -> torch.Tensor:
    pieces = tensor.reshape(-1).split(_PIECE) if tensor.numel() else ()
    parts = [_part(piece.to(torch.float64)) for piece in pieces]
    if not parts:
        nothing = torch.zeros((), dtype=torch.float64, device=tensor.device)
        return _finished(nothing, nothing, nothing, None, 0)
    table = torch.stack(parts)
    counts, means = table[:, 0], table[:, 1]
    count = counts.sum()
    mean = (counts * means).sum() / count.clamp(min=1)
    deviations = means - mean
    return _finished(count, mean, (table[:, 2] + counts * deviations * deviations).sum(), table, tensor.numel())


def _part(x: torch.Tensor) -> torch.Tensor:
    """Count, mean, squares around it, smallest and largest of the finite elements; zeros, NaN and infinities of all."""
    finite = torch.isfinite(x)
    count = finite.sum()
    mean = torch.where(finite, x, 0.0).sum() / count.clamp(min=1)
    deviations = torch.where(finite, x - mean, 0.0)
    return torch.stack(
        [
            count.to(torch.float64),
            mean,
            (deviations * deviations).sum(),
            torch.where(finite, x, torch.inf).amin(),
            torch.where(finite, x, -torch.inf).amax(),
            *(found.sum().to(torch.float64) for found in (x == 0, x.isnan(), x == torch.inf, x == -torch.inf)),
        ]
    )


def _finished(
    count: torch.Tensor, mean: torch.Tensor, squares: torch.Tensor, table: torch.Tensor, size: int
) -> torch.Tensor:
    """Return a row in the order of `STATISTICS`; mean, deviation, norm and extremes are NaN without finite elements."""
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
        [torch.where(nothing, torch.nan, statistic) for statistic in of_finite]
        + counts
        + [torch.full_like(mean, float(size))]
    )


#: What the kernels read as it is.
READ = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def measure_on_device(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: Real and dense, one or more, on one device.
    """
    return measure_readable([readable(tensor.detach()) for tensor in tensors])


def measure_readable(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the same of tensors as `readable` returns them."""
    return _kernel_for(tensors[0].device.type)(tensors)


@cache
def has_kernels(device: str) -> bool:
    """Return whether Triton serves this type of device here."""
    return device == "cuda" and find_spec("triton") is not None


@cache
def _kernel_for(device: str) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    if not has_kernels(device):
        return measure_plainly
    from .triton_statistics import measure_fused  # noqa: PLC0415  an optional extra

    return measure_fused


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as the kernels read them, without gaps, in any order; copied on the device if required."""
    if tensor.dtype not in READ:
        is_small_float = tensor.is_floating_point() and tensor.element_size() == 1
        tensor = tensor.to(torch.float32 if is_small_float else torch.float64)
    if tensor.is_contiguous():
        return tensor
    return tensor.as_strided((tensor.numel(),), (1,)) if fills_its_memory(tensor) else tensor.contiguous()


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie without gaps and without overlap, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
