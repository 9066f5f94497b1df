"""Histograms by a Triton kernel: all tensors of one type in a launch, each element read once.

A program has a stretch of one tensor, as those of the statistics have. It finds the bin of every element in float64, as
the processor does, so that the counts are the same; counts block by block in shared memory, and adds what it found to
the tensor's counts with one atomic addition for each bin. Where the bins end is read from the statistics, on the
device, so that nobody waits for them.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from ..histogram_bins import Bins
from .triton_statistics import STRETCH, begin_of, plan_of, wide

#: Elements that a program counts at a time, and its warps.
_BLOCK, _WARPS = 2048, 8


@triton.jit
def _counted(  # type: ignore[no-untyped-def]
    places,
    members,
    owners,
    starts,
    rows,
    counts,
    CODE: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
    IS_LOGARITHMIC: tl.constexpr,
    BINS: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    STRETCH: tl.constexpr,
):
    program = tl.load(members + tl.program_id(0))
    row = tl.load(owners + program)
    begin = begin_of(tl.load(places + 2 * row), CODE, IS_ALIGNED)
    start = tl.multiple_of(tl.load(starts + program), BLOCK)
    size = tl.minimum(tl.load(places + 2 * row + 1) - start, STRETCH)
    low, high = _ends(tl.load(rows + row * 10 + 3), tl.load(rows + row * 10 + 4))
    lanes = tl.arange(0, BLOCK)
    found = tl.zeros((PADDED,), tl.int32)
    for at in range(0, size, BLOCK):
        inside = at + lanes < size
        x = wide(tl.load(begin + start + tl.multiple_of(at, BLOCK) + lanes, mask=inside, other=0.0)).to(tl.float64)
        counted = inside & (tl.abs(x) < float("inf"))
        if IS_LOGARITHMIC:
            bins = _octave(x, low, high, BINS // 2)
        else:
            bins, is_number = _share(x, low, high, BINS)
            counted = counted & is_number
        found += tl.histogram(tl.where(counted, bins, 0), PADDED, mask=counted)
    bin_numbers = tl.arange(0, PADDED)
    tl.atomic_add(counts + row * BINS + bin_numbers, found.to(tl.int64), mask=bin_numbers < BINS)


@triton.jit
def _ends(low, high):  # type: ignore[no-untyped-def]
    """Smallest and largest value; zeros where none is finite."""
    infinity = float("inf")
    return tl.where(tl.abs(low) < infinity, low, 0.0), tl.where(tl.abs(high) < infinity, high, 0.0)


@triton.jit
def _share(x, low, high, BINS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Bins of equal width, as `count_values` finds them, and whether each is a number."""
    half = tl.maximum(tl.abs(low) * 0.5, 0.5)
    is_point = (high - low <= tl.abs(low) * 1e-12) | (high != high)
    first = tl.where(is_point, low - half, low)
    last = tl.where(is_point, high + half, high)
    number_of_bins = tl.full((), BINS, tl.float64)
    position = (x - first) * (number_of_bins / (last - first))
    is_number = tl.abs(position) < float("inf")
    bins = tl.where(is_number, tl.minimum(tl.maximum(position, 0.0), BINS - 1), 0.0)
    return bins.to(tl.int32), is_number


@triton.jit
def _octave(x, low, high, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
    """Bins that halve towards zero, as `count_octaves` finds them."""
    largest = tl.maximum(tl.abs(low), tl.abs(high)).to(tl.int64, bitcast=True)
    is_power = (largest & ((1 << 52) - 1)) == 0
    top = ((largest >> 52) & 0x7FF).to(tl.int32) - 1022 - tl.where(is_power, 1, 0)
    top = tl.maximum(top, HALF - 1022)
    exponent = ((x.to(tl.int64, bitcast=True) >> 52) & 0x7FF).to(tl.int32) - 1022
    octave = tl.minimum(tl.maximum(top - exponent, 0), HALF - 1)
    return tl.where(x < 0.0, octave, 2 * HALF - 1 - octave)


def count_fused(tensors: Sequence[torch.Tensor], rows: torch.Tensor, bins: Bins) -> torch.Tensor:
    """Return `(n, bins)` float64 on the device of the tensors: finite values, as `bins` counts them on the processor.

    Args:
        tensors: As `measure_fused` takes them.
        rows: `(n, 10)` their statistics, whose smallest and largest value are the ends; on the device.
        bins: The same kind for all of them.
    """
    plan, places = plan_of(tensors)
    counts = torch.zeros((len(tensors), bins.number), dtype=torch.int64, device=rows.device)
    for (code, is_aligned), members in plan.members.items():
        _counted[(members.numel(),)](
            *(places, members, plan.owners, plan.starts, rows, counts),
            CODE=code,
            IS_ALIGNED=is_aligned,
            IS_LOGARITHMIC=bins.is_logarithmic,
            BINS=bins.number,
            PADDED=triton.next_power_of_2(bins.number),
            BLOCK=_BLOCK,
            STRETCH=STRETCH,
            num_warps=_WARPS,
        )
    return counts.to(torch.float64)
