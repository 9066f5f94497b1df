"""Further statistics of tensors on their device: on request, histograms, checksums, projections, singular values.

Every operation is queued; none waits for the device. A tensor is read in pieces, so that no copy of it in 64 bits is
larger than one of them. Checksums are the same bits as on the processor, quantiles the same buckets, projections the
same but for the order of float64 sums. Small tensors are concatenated and measured together.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import torch

from ..histogram_bins import Bins
from ..more import QUANTILES, More
from .measuring import has_kernels, readable

#: Elements of a piece: in 64 bits they take 32 MiB, and a few such pieces are in memory at a time. Our choice.
_PIECE: Final = 1 << 22
_BUCKETS, _HALF, _SHIFT = 1 << 15, 1 << 14, 17
_LARGEST: Final = torch.finfo(torch.float32).max
#: The bits of an element as an integer of its width, and what keeps them without a sign in one of 64 bits.
_BITS: Final = {2: (torch.int16, 0xFFFF), 4: (torch.int32, 0xFFFFFFFF), 8: (torch.int64, -1)}


def _signed(number: int) -> int:
    """Return the same 64 bits as a signed number, as torch has them."""
    return number - (1 << 64) if number >> 63 else number


_STEP, _MIX = _signed(0x9E3779B97F4A7C15), _signed(0xBF58476D1CE4E5B9)
_LOW: Final = (1 << 32) - 1
#: The bits of a checksum that float64 keeps.
KEPT: Final = (1 << 53) - 1


def requested_on_device(tensor: torch.Tensor, row: torch.Tensor, more: More) -> torch.Tensor:
    """Return `(columns,)` float64 on the tensor's device, in the order of `more.columns`.

    Args:
        tensor: As `readable` gives it.
        row: `(10,)` its statistics.
        more: One or more of them.
    """
    wanted, found = more.columns, []
    pieces = tensor.reshape(-1).split(_PIECE) if tensor.numel() else ()
    count = row[9] - row[6] - row[7] - row[8]
    nothing = count == 0
    if "sum" in wanted:
        found.append(_total(pieces, _finite_sum, row))
    if "abs_max" in wanted:
        found.append(torch.where(nothing, torch.nan, torch.maximum(row[3].abs(), row[4].abs())))
    if "kurtosis" in wanted:
        mean, scale = row[1], 2.0 / row[2]
        fourth = _total(pieces, lambda x: (_half_deviation(x, mean) * scale).pow(4).sum(), row)
        found.append(torch.where(nothing | ~(row[2] > 0.0) | row[2].isinf(), torch.nan, fourth / count.clamp(min=1)))
    if "checksum" in wanted:
        mixed = sum(
            (mixed_bits(piece).sum() for piece in pieces), start=torch.zeros((), dtype=torch.int64, device=row.device)
        )
        found.append(((mixed >> 11) & KEPT).to(torch.float64))
    if "q50" in wanted:
        found += _quantiles(pieces, count, row)
    return torch.stack(found)


def _total(pieces: torch.Tensor, of_piece: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return sum((of_piece(piece.to(torch.float64)) for piece in pieces), start=torch.zeros_like(row[0]))


def _finite_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(x), x, 0.0).sum()


def _half_deviation(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Return half the distance from the mean, since the difference of two large numbers must not overflow."""
    return torch.where(torch.isfinite(x), 0.5 * x - 0.5 * mean, 0.0)


def mixed_bits(piece: torch.Tensor) -> torch.Tensor:
    """Return `(elements,)` int64: the mix of every element's bits, whose sum modulo 2^64 is the checksum."""
    kind, mask = _BITS[piece.element_size()]
    mixed = ((piece.view(kind).to(torch.int64) & mask) + _STEP) * _MIX
    return (mixed ^ ((mixed >> 32) & _LOW)) * _STEP


def _quantiles(pieces: torch.Tensor, count: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
    """Return the middles of the buckets that hold the ranks, between smallest and largest."""
    counts = torch.zeros(
        _BUCKETS + 1, dtype=torch.int64, device=row.device
    )  # the last one counts values that are not finite
    for piece in pieces:
        single = piece.to(torch.float64).clamp(-_LARGEST, _LARGEST) if piece.element_size() == 8 else piece
        bits = single.to(torch.float32).view(torch.int32)
        bucket = ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) >> _SHIFT) + _HALF
        bucket = torch.where(torch.isfinite(piece), bucket, _BUCKETS).to(torch.int64)
        counts.scatter_add_(0, bucket, torch.ones_like(bucket))
    ranks = torch.stack([torch.floor(share * (count - 1)) for share in QUANTILES.values()]).to(torch.int64)
    buckets = torch.searchsorted(counts[:_BUCKETS].cumsum(0), ranks, right=True).clamp(max=_BUCKETS - 1)
    found = torch.minimum(torch.maximum(_middles(buckets), row[3]), row[4])
    return list(torch.where(count == 0, torch.nan, found))


def _middles(buckets: torch.Tensor) -> torch.Tensor:
    low = ((buckets - _HALF) << _SHIFT).to(torch.int32)
    ends = torch.stack([low, low + ((1 << _SHIFT) - 1)])
    values = (ends ^ ((ends >> 31) & 0x7FFFFFFF)).view(torch.float32).to(torch.float64)
    is_zero = (buckets == _HALF) | (buckets == _HALF - 1)
    return torch.where(is_zero, 0.0, 0.5 * values[0] + 0.5 * values[1])


def checksum_on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return `(2,)` int64 on the tensor's device: 53 bits of the checksum of its words of eight bytes, and the bytes
    behind.

    Args:
        tensor: Dense, of any dtype and strides; read in the order of C.
    """
    dense = tensor.detach().contiguous()
    if dense.storage_offset() * dense.element_size() % 8:
        dense = dense.clone()
    content = dense.reshape(-1).view(torch.uint8)
    end = content.numel() // 8 * 8
    zero = torch.zeros((), dtype=torch.int64, device=dense.device)
    words = content[:end].view(torch.int64).split(_PIECE) if end else ()
    mixed = sum((mixed_bits(piece).sum() for piece in words), start=zero)
    tail = sum((byte.to(torch.int64) << 8 * position for position, byte in enumerate(content[end:])), start=zero)
    return torch.stack([(mixed >> 11) & KEPT, tail])


def count_on_device(tensor: torch.Tensor, row: torch.Tensor, bins: Bins) -> torch.Tensor:
    """Return `(bins,)` float64 on the tensor's device: finite values, as `bins` counts them on the host.

    Args:
        tensor: Real and dense.
        row: `(10,)` its statistics, whose smallest and largest value are the ends.
        bins: Of which kind.
    """
    counts = torch.zeros(bins.number, dtype=torch.int64, device=tensor.device)
    place = _octave(row, bins.number) if bins.is_logarithmic else _share(row, bins.number)
    for piece in tensor.reshape(-1).split(_PIECE):
        values = piece.to(torch.float64)
        positions = place(values)
        counted = torch.isfinite(positions) & torch.isfinite(values)
        number = torch.where(counted, positions, 0.0).to(torch.int64).clamp_(0, bins.number - 1)
        counts.scatter_add_(0, number, counted.to(torch.int64))
    return counts.to(torch.float64)


def counts_on_device(tensors: Sequence[torch.Tensor], rows: torch.Tensor, bins: Bins) -> torch.Tensor:
    """Return `(n, bins)` float64 on the device of the tensors: what `count_on_device` counts in each.

    Args:
        tensors: As `readable` gives them, one or more.
        rows: `(n, 10)` their statistics.
        bins: Of which kind, the same for all.
    """
    if has_kernels(tensors[0].device.type):
        from .triton_histograms import count_fused  # noqa: PLC0415  an optional extra

        return count_fused(tensors, rows, bins)
    return torch.stack([count_on_device(tensor, row, bins) for tensor, row in zip(tensors, rows, strict=True)])


def _share(row: torch.Tensor, bins: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function to positions in equal bins, as `count_values` finds them."""
    low, high = _histogram_ends(row)
    return lambda values: (values - low) * (bins / (high - low))


def _octave(row: torch.Tensor, bins: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function to positions in bins that halve towards zero, as `count_octaves` finds them."""
    half = bins // 2
    largest = torch.nan_to_num(row[3:5], 0.0).abs().amax()
    mantissa, top = torch.frexp(largest)
    top = torch.where(mantissa == 0.5, top - 1, top).clamp(min=half - 1022)  # as `octaves_between` does

    def position(values: torch.Tensor) -> torch.Tensor:
        octave = (top - torch.frexp(values.abs())[1]).clamp(0, half - 1)
        octave = torch.where(values == 0.0, half - 1, octave)
        return torch.where(values < 0.0, octave, 2 * half - 1 - octave).to(torch.float64)

    return position


def _histogram_ends(row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return smallest and largest, widened where they coincide, as `edges_between` does; zeros where none is finite."""
    low, high = torch.nan_to_num(row[3], 0.0), torch.nan_to_num(row[4], 0.0)
    half = (low.abs() * 0.5).clamp(min=0.5)
    is_point = ~(high - low > low.abs() * 1e-12)
    return torch.where(is_point, low - half, low), torch.where(is_point, high + half, high)


_HIGH: Final = (1 << 35) - 1


def checksums_on_device(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n,)` float64 on the device of the tensors: their checksums, as `measure_more` has them."""
    readables = [readable(tensor.detach()).reshape(-1) for tensor in tensors]
    found = [_checksums(readables[start:end]) for start, end in _groups(readables)]
    return ((torch.cat(found) >> 11) & KEPT).to(torch.float64)


def projections_on_device(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n, 2)` float64 on the device of the tensors: their projections, as `project` has them."""
    readables = [readable(tensor.detach()).reshape(-1) for tensor in tensors]
    return torch.cat([_projections(readables[start:end]) for start, end in _groups(readables)])


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[int, int]]:
    """Yield (first, one past the last) of neighbours of one dtype that are small together; a large one stands alone."""
    start, size = 0, 0
    for number, tensor in enumerate(tensors):
        is_other = number > start and (tensor.dtype != tensors[start].dtype or size + tensor.numel() > _PIECE)
        if is_other:
            yield start, number
            start, size = number, 0
        size += tensor.numel()
    if tensors:
        yield start, len(tensors)


def _checksums(group: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n,)` int64, all 64 bits."""
    if len(group) == 1:
        return sum(
            (mixed_bits(piece).sum() for piece in group[0].split(_PIECE)), start=_zero(group[0], torch.int64)
        ).reshape(1)
    return _parts(mixed_bits(torch.cat(list(group))), group)


def _projections(group: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(group) == 1:
        (tensor,) = group
        total = _zero(tensor, torch.float64).repeat(2)
        for start in range(0, tensor.numel(), _PIECE):
            values = tensor[start : start + _PIECE].to(torch.float64)
            total = total + torch.stack([values.sum(), _with_signs(values, _signs(start, tensor.device)).sum()])
        return total[None]
    values = torch.cat(list(group)).to(torch.float64)
    signs = torch.cat([_signs(0, values.device)[: tensor.numel()] for tensor in group])
    return torch.stack([_parts(values, group), _parts(_with_signs(values, signs), group)], dim=1)


def _with_signs(values: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    return torch.where(signs[: values.numel()], values, -values)


def _parts(values: torch.Tensor, group: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n,)` the sum of each tensor's part of the values."""
    if not values.is_floating_point():  # differences of cumulative sums are exact, since all sums are modulo 2^64
        ends = _tensor_ends(tuple(tensor.numel() for tensor in group), values.device)
        sums = torch.cat([torch.zeros_like(values[:1]), values.cumsum(0)])[ends]
        return sums[1:] - sums[:-1]
    return torch.stack([part.sum() for part in values.split([tensor.numel() for tensor in group])])


def _zero(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros((), dtype=dtype, device=tensor.device)


@lru_cache(maxsize=64)
def _tensor_ends(sizes: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return `(n + 1,)` where each tensor begins, sent from memory that the device reads by itself."""
    ends = torch.tensor([0, *sizes], dtype=torch.int64, device="cpu").cumsum(0)
    return ends if device.type == "cpu" else ends.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=8)
def _signs(start: int, device: torch.device) -> torch.Tensor:
    """Return `(4 Mi,)` whether the value at each place from `start` on counts with its own sign."""
    hashed = torch.arange(start + 1, start + 1 + _PIECE, dtype=torch.int64, device=device) * _STEP
    return ((hashed ^ ((hashed >> 29) & _HIGH)) * _STEP) < 0


@torch.no_grad()
def iterate_on_device(matrix: torch.Tensor, vector: torch.Tensor, times: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(2,)` float64 on the device, an estimate of the largest singular value and the squared Frobenius norm;
    and the vector to continue from.

    Args:
        matrix: `(m, n)` real.
        vector: `(n,)` NumPy's, to begin with, or what was given back before; one that is not finite begins anew.
        times: Iterations.
    """
    detached = matrix.detach()
    wide = detached if detached.dtype in (torch.float32, torch.float64) else detached.to(torch.float32)
    vector = vector if isinstance(vector, torch.Tensor) else torch.from_numpy(vector).to(wide.device, wide.dtype)
    vector = torch.nan_to_num(vector, 1.0, 1.0, 1.0)
    for _ in range(times):
        left = wide @ (vector / _norm_or_one(vector))
        left = left / _norm_or_one(left)
        vector = wide.T @ left
    square = wide.to(torch.float64).square().sum()
    return torch.stack([vector.norm().to(torch.float64), square]), vector


def _norm_or_one(vector: torch.Tensor) -> torch.Tensor:
    norm = vector.norm()
    return torch.where(norm == 0.0, 1.0, norm)
