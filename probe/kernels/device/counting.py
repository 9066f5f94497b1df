"""Histograms of tensors where they lie, between ends that are themselves still on their way."""

from collections.abc import Callable
from typing import Any

import torch

from ..bins import Bins

#: Elements of a piece: as float64 and as places of 64 bits they take 64 MiB. Our choice.
_PIECE = 1 << 22


def count_on_device(tensor: Any, row: Any, bins: Bins) -> Any:
    """`(bins,)` float64 on the tensor's device: finite values, as `bins` counts them on the host.

    Args:
        tensor: Real and dense.
        row: `(10,)` its statistics, whose smallest and largest value are the ends.
        bins: Of which kind.
    """
    counts = torch.zeros(bins.number, dtype=torch.int64, device=tensor.device)
    place = _octave(row, bins.number) if bins.is_logarithmic else _share(row, bins.number)
    for piece in tensor.reshape(-1).split(_PIECE):
        values = piece.to(torch.float64)
        places = place(values)
        counted = torch.isfinite(places) & torch.isfinite(values)
        number = torch.where(counted, places, 0.0).to(torch.int64).clamp_(0, bins.number - 1)
        counts.scatter_add_(0, number, counted.to(torch.int64))
    return counts.to(torch.float64)


def _share(row: Any, bins: int) -> Callable[[Any], Any]:
    """Places in equal bins, as `count_values` finds them."""
    low, high = _ends(row)
    return lambda values: (values - low) * (bins / (high - low))


def _octave(row: Any, bins: int) -> Callable[[Any], Any]:
    """Places in bins that halve towards zero, as `count_octaves` finds them."""
    half = bins // 2
    largest = torch.nan_to_num(row[3:5], 0.0).abs().amax()
    mantissa, top = torch.frexp(largest)
    top = torch.where(mantissa == 0.5, top - 1, top).clamp(min=half - 1022)  # as `octaves_between` does

    def place(values: Any) -> Any:
        octave = (top - torch.frexp(values.abs())[1]).clamp(0, half - 1)
        octave = torch.where(values == 0.0, half - 1, octave)
        return torch.where(values < 0.0, octave, 2 * half - 1 - octave).to(torch.float64)

    return place


def _ends(row: Any) -> tuple[Any, Any]:
    """Smallest and largest, widened where they coincide, as `edges_between` does; zeros where nothing is finite."""
    low, high = torch.nan_to_num(row[3], 0.0), torch.nan_to_num(row[4], 0.0)
    half = (low.abs() * 0.5).clamp(min=0.5)
    is_point = ~(high - low > low.abs() * 1e-12)
    return torch.where(is_point, low - half, low), torch.where(is_point, high + half, high)
