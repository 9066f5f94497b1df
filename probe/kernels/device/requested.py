"""Statistics on request of tensors where they lie, by torch's own operations; the definitions are those of `more`.

Every operation is queued; none waits for the device. A tensor is read in pieces, so that no copy of it as float64 is
larger than one of them. Checksums are the same bits as on the processor, quantiles the same buckets.
"""

from typing import Any, Final

import torch

from ..more import QUANTILES, More

#: Elements of a piece: as numbers of 64 bits they take 32 MiB, and a few such are there at a time. Our choice.
_PIECE: Final = 1 << 22
_BUCKETS, _HALF, _SHIFT = 1 << 15, 1 << 14, 17
_LARGEST: Final = torch.finfo(torch.float32).max
#: The bits of an element as an integer of its width, and what keeps them without a sign in one of 64 bits.
_BITS: Final = {2: (torch.int16, 0xFFFF), 4: (torch.int32, 0xFFFFFFFF), 8: (torch.int64, -1)}


def _signed(number: int) -> int:
    """The same 64 bits as a number with a sign, as torch has them."""
    return number - (1 << 64) if number >> 63 else number


_STEP, _MIX = _signed(0x9E3779B97F4A7C15), _signed(0xBF58476D1CE4E5B9)
_LOW: Final = (1 << 32) - 1
#: The bits of a checksum that float64 keeps.
KEPT: Final = (1 << 53) - 1


def requested_on_device(tensor: Any, row: Any, more: More) -> Any:
    """`(columns,)` float64 on the tensor's device, in the order of `more.columns`.

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
        fourth = _total(pieces, lambda x: (_halves_away(x, mean) * scale).pow(4).sum(), row)
        found.append(torch.where(nothing | ~(row[2] > 0.0) | row[2].isinf(), torch.nan, fourth / count.clamp(min=1)))
    if "checksum" in wanted:
        mixed = sum(
            (mixed_bits(piece).sum() for piece in pieces), start=torch.zeros((), dtype=torch.int64, device=row.device)
        )
        found.append(((mixed >> 11) & KEPT).to(torch.float64))
    if "q50" in wanted:
        found += _quantiles(pieces, count, row)
    return torch.stack(found)


def _total(pieces: Any, of_piece: Any, row: Any) -> Any:
    return sum((of_piece(piece.to(torch.float64)) for piece in pieces), start=torch.zeros_like(row[0]))


def _finite_sum(x: Any) -> Any:
    return torch.where(torch.isfinite(x), x, 0.0).sum()


def _halves_away(x: Any, mean: Any) -> Any:
    """Half the distance from the mean, since the difference of two large numbers must not overflow."""
    return torch.where(torch.isfinite(x), 0.5 * x - 0.5 * mean, 0.0)


def mixed_bits(piece: Any) -> Any:
    """`(elements,)` int64: the mix of every element's bits, whose sum modulo 2^64 is the checksum."""
    kind, mask = _BITS[piece.element_size()]
    one = ((piece.view(kind).to(torch.int64) & mask) + _STEP) * _MIX
    return (one ^ ((one >> 32) & _LOW)) * _STEP


def _quantiles(pieces: Any, count: Any, row: Any) -> list[Any]:
    """The middles of the buckets that hold the ranks, between smallest and largest."""
    counts = torch.zeros(_BUCKETS + 1, dtype=torch.int64, device=row.device)  # the last for what is not finite
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


def _middles(buckets: Any) -> Any:
    low = ((buckets - _HALF) << _SHIFT).to(torch.int32)
    ends = torch.stack([low, low + ((1 << _SHIFT) - 1)])
    values = (ends ^ ((ends >> 31) & 0x7FFFFFFF)).view(torch.float32).to(torch.float64)
    is_zero = (buckets == _HALF) | (buckets == _HALF - 1)
    return torch.where(is_zero, 0.0, 0.5 * values[0] + 0.5 * values[1])


def checksum_on_device(tensor: Any) -> Any:
    """`(2,)` int64 on the tensor's device: 53 bits of the checksum of its words of eight bytes, and the bytes behind.

    Args:
        tensor: Dense, of any dtype and strides; read in the order of C.
    """
    held = tensor.detach().contiguous()
    if held.storage_offset() * held.element_size() % 8:
        held = held.clone()
    content = held.reshape(-1).view(torch.uint8)
    end = content.numel() // 8 * 8
    zero = torch.zeros((), dtype=torch.int64, device=held.device)
    words = content[:end].view(torch.int64).split(_PIECE) if end else ()
    mixed = sum((mixed_bits(piece).sum() for piece in words), start=zero)
    tail = sum((byte.to(torch.int64) << 8 * place for place, byte in enumerate(content[end:])), start=zero)
    return torch.stack([(mixed >> 11) & KEPT, tail])
