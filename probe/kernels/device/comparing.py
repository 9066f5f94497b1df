"""Checksums and projections of many tensors where they lie, by which ranks are compared; nothing waits for the device.

Small tensors are laid behind one another and measured together: a running sum tells each its own. Checksums are the
same bits as on the processor, projections the same but for the order of float64 sums.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import torch

from .measuring import readable
from .requested import KEPT, mixed_bits

#: Elements that are measured together: as numbers of 64 bits they take 32 MiB, and a few such are there at a time.
_PIECE: Final = 1 << 22
#: As `kernels/projection.py` has it, as a number with a sign.
_STEP: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_HIGH: Final = (1 << 35) - 1


def checksums_on_device(tensors: Sequence[Any]) -> Any:
    """`(n,)` float64 on the device of the tensors: their checksums, as `measure_more` has them."""
    held = [readable(one.detach()).reshape(-1) for one in tensors]
    found = [_checksums(held[start:end]) for start, end in _groups(held)]
    return ((torch.cat(found) >> 11) & KEPT).to(torch.float64)


def projections_on_device(tensors: Sequence[Any]) -> Any:
    """`(n, 2)` float64 on the device of the tensors: their projections, as `project` has them."""
    held = [readable(one.detach()).reshape(-1) for one in tensors]
    return torch.cat([_projections(held[start:end]) for start, end in _groups(held)])


def _groups(held: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """(first, one past the last) of neighbours of one dtype that are small together; a large one stands alone."""
    start, size = 0, 0
    for number, one in enumerate(held):
        is_other = number > start and (one.dtype != held[start].dtype or size + one.numel() > _PIECE)
        if is_other:
            yield start, number
            start, size = number, 0
        size += one.numel()
    if held:
        yield start, len(held)


def _checksums(group: Sequence[Any]) -> Any:
    """`(n,)` int64, all 64 bits."""
    if len(group) == 1:
        return sum(
            (mixed_bits(piece).sum() for piece in group[0].split(_PIECE)), start=_zero(group[0], torch.int64)
        ).reshape(1)
    return _parts(mixed_bits(torch.cat(list(group))), group)


def _projections(group: Sequence[Any]) -> Any:
    if len(group) == 1:
        (one,) = group
        total = _zero(one, torch.float64).repeat(2)
        for start in range(0, one.numel(), _PIECE):
            values = one[start : start + _PIECE].to(torch.float64)
            total = total + torch.stack([values.sum(), _with_signs(values, _signs(start, one.device)).sum()])
        return total[None]
    values = torch.cat(list(group)).to(torch.float64)
    signs = torch.cat([_signs(0, values.device)[: one.numel()] for one in group])
    return torch.stack([_parts(values, group), _parts(_with_signs(values, signs), group)], dim=1)


def _with_signs(values: Any, signs: Any) -> Any:
    return torch.where(signs[: values.numel()], values, -values)


def _parts(values: Any, group: Sequence[Any]) -> Any:
    """`(n,)` the sum of each tensor's part of the values."""
    if not values.is_floating_point():  # exact whatever comes before, since all sums are modulo 2^64
        ends = _ends(tuple(one.numel() for one in group), values.device)
        sums = torch.cat([torch.zeros_like(values[:1]), values.cumsum(0)])[ends]
        return sums[1:] - sums[:-1]
    return torch.stack([part.sum() for part in values.split([one.numel() for one in group])])


def _zero(one: Any, dtype: Any) -> Any:
    return torch.zeros((), dtype=dtype, device=one.device)


@lru_cache(maxsize=64)
def _ends(sizes: tuple[int, ...], device: Any) -> Any:
    """`(n + 1,)` where each tensor begins, sent from memory that the device reads by itself."""
    ends = torch.tensor([0, *sizes], dtype=torch.int64).cumsum(0)
    return ends if device.type == "cpu" else ends.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=8)
def _signs(start: int, device: Any) -> Any:
    """`(4 Mi,)` whether the value at each place from `start` on counts with its own sign."""
    hashed = torch.arange(start + 1, start + 1 + _PIECE, dtype=torch.int64, device=device) * _STEP
    return ((hashed ^ ((hashed >> 29) & _HIGH)) * _STEP) < 0
