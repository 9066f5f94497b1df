"""The ten statistics by two Triton kernels: all tensors of a call in two launches, each element read once.

The first kernel gives every program a stretch of one tensor: it walks it in blocks, each of which is summed around its
own mean while it is in registers, and joins them (Chan, Golub and LeVeque 1979). The second has a program for every
tensor, which joins the stretches. All sums are float64: n elements cost about 8 n operations, fewer than what an A100,
H100 or H200 does in float64 while the elements arrive. Squares that leave float64's range make norm and deviation
infinite.

Agrees with the reference to 1e-12 relative: the only freedom is the order of float64 sums.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl

_BLOCK = 2048
#: Blocks that one program walks: 64 Ki elements, so that the partial results are a ten-thousandth of the data.
_ROUNDS = 32
#: Stretches that the second kernel joins at a time.
_JOINED = 1024
#: Partial results: count, mean, squares around it, smallest, largest, zeros, NaN, +Inf, -Inf.
_FIELDS = 9

#: How the kernel is told the element type.
_CODES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}


@triton.jit
def _block_of(address, at, inside, code):  # type: ignore[no-untyped-def]
    if code == 0:
        x = tl.load(address.to(tl.pointer_type(tl.float32)) + at, mask=inside, other=0.0).to(tl.float64)
    elif code == 1:
        x = tl.load(address.to(tl.pointer_type(tl.float64)) + at, mask=inside, other=0.0)
    elif code == 2:
        x = tl.load(address.to(tl.pointer_type(tl.float16)) + at, mask=inside, other=0.0).to(tl.float64)
    else:
        x = tl.load(address.to(tl.pointer_type(tl.bfloat16)) + at, mask=inside, other=0.0).to(tl.float64)
    return x


@triton.jit
def _stretches(places, owners, starts, partials, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):  # type: ignore[no-untyped-def]
    program = tl.program_id(0)
    row = tl.load(owners + program)
    address = tl.load(places + 3 * row)
    size = tl.load(places + 3 * row + 1)
    code = tl.load(places + 3 * row + 2)
    start = tl.load(starts + program)
    n = tl.zeros((), tl.float64)
    mean = tl.zeros((), tl.float64)
    squares = tl.zeros((), tl.float64)
    low = tl.full((), float("inf"), tl.float64)
    high = tl.full((), float("-inf"), tl.float64)
    zeros = tl.zeros((), tl.float64)
    nans = tl.zeros((), tl.float64)
    positive = tl.zeros((), tl.float64)
    negative = tl.zeros((), tl.float64)
    for number in range(ROUNDS):
        at = start + number * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        x = _block_of(address, at, inside, code)
        is_nan = x != x
        finite = inside & (tl.abs(x) < float("inf"))
        here = tl.sum(finite.to(tl.float64), 0)
        own = tl.sum(tl.where(finite, x, 0.0), 0) / tl.maximum(here, 1.0)
        away = tl.where(finite, x - own, 0.0)
        together = tl.maximum(n + here, 1.0)
        step = own - mean
        squares += tl.sum(away * away, 0) + step * step * (n * here / together)
        mean += step * (here / together)
        n += here
        low = tl.minimum(low, tl.min(tl.where(finite, x, float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.where(finite, x, float("-inf")), 0))
        zeros += tl.sum((inside & (x == 0.0)).to(tl.float64), 0)
        nans += tl.sum((inside & is_nan).to(tl.float64), 0)
        positive += tl.sum((inside & (x == float("inf"))).to(tl.float64), 0)
        negative += tl.sum((inside & (x == float("-inf"))).to(tl.float64), 0)
    out = partials + program * 9
    tl.store(out, n)
    tl.store(out + 1, mean)
    tl.store(out + 2, squares)
    tl.store(out + 3, low)
    tl.store(out + 4, high)
    tl.store(out + 5, zeros)
    tl.store(out + 6, nans)
    tl.store(out + 7, positive)
    tl.store(out + 8, negative)


@triton.jit
def _join(partials, firsts, places, rows, JOINED: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    first = tl.load(firsts + row)
    last = tl.load(firsts + row + 1)
    n = tl.zeros((), tl.float64)
    total = tl.zeros((), tl.float64)
    for begin in range(first, last, JOINED):
        at = begin + tl.arange(0, JOINED)
        here = tl.load(partials + at * 9, mask=at < last, other=0.0)
        n += tl.sum(here, 0)
        total += tl.sum(here * tl.load(partials + at * 9 + 1, mask=at < last, other=0.0), 0)
    mean = total / tl.maximum(n, 1.0)
    squares = tl.zeros((), tl.float64)
    low = tl.full((), float("inf"), tl.float64)
    high = tl.full((), float("-inf"), tl.float64)
    zeros = tl.zeros((), tl.float64)
    nans = tl.zeros((), tl.float64)
    positive = tl.zeros((), tl.float64)
    negative = tl.zeros((), tl.float64)
    for begin in range(first, last, JOINED):
        at = begin + tl.arange(0, JOINED)
        inside = at < last
        here = tl.load(partials + at * 9, mask=inside, other=0.0)
        away = tl.load(partials + at * 9 + 1, mask=inside, other=0.0) - mean
        squares += tl.sum(tl.load(partials + at * 9 + 2, mask=inside, other=0.0) + here * away * away, 0)
        low = tl.minimum(low, tl.min(tl.load(partials + at * 9 + 3, mask=inside, other=float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.load(partials + at * 9 + 4, mask=inside, other=float("-inf")), 0))
        zeros += tl.sum(tl.load(partials + at * 9 + 5, mask=inside, other=0.0), 0)
        nans += tl.sum(tl.load(partials + at * 9 + 6, mask=inside, other=0.0), 0)
        positive += tl.sum(tl.load(partials + at * 9 + 7, mask=inside, other=0.0), 0)
        negative += tl.sum(tl.load(partials + at * 9 + 8, mask=inside, other=0.0), 0)
    nan = tl.where(n == 0.0, float("nan"), 0.0)
    out = rows + row * 10
    tl.store(out, tl.sqrt(squares + n * mean * mean) + nan)
    tl.store(out + 1, mean + nan)
    tl.store(out + 2, tl.sqrt(squares / tl.maximum(n, 1.0)) + nan)
    tl.store(out + 3, tl.where(n == 0.0, float("nan"), low))
    tl.store(out + 4, tl.where(n == 0.0, float("nan"), high))
    tl.store(out + 5, zeros)
    tl.store(out + 6, nans)
    tl.store(out + 7, positive)
    tl.store(out + 8, negative)
    tl.store(out + 9, tl.load(places + 3 * row + 1).to(tl.float64))


def measure_fused(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: On one device, of float32, float64, float16 or bfloat16, filling their memory without gaps. They must
            not be freed before the current stream has passed this call; the caching allocator sees to that.
    """
    device = tensors[0].device
    sizes = tuple(tensor.numel() for tensor in tensors)
    owners, starts, firsts = _plan(sizes, device)
    table = torch.tensor(
        [(tensor.data_ptr(), size, _CODES[tensor.dtype]) for tensor, size in zip(tensors, sizes, strict=True)]
    )
    table = _moved(table, device)
    rows = torch.empty((len(tensors), 10), dtype=torch.float64, device=device)
    partials = torch.empty((max(owners.numel(), 1), _FIELDS), dtype=torch.float64, device=device)
    if owners.numel():
        _stretches[(owners.numel(),)](table, owners, starts, partials, BLOCK=_BLOCK, ROUNDS=_ROUNDS)
    _join[(len(tensors),)](partials, firsts, table, rows, JOINED=_JOINED)
    return rows


@lru_cache(maxsize=256)
def _plan(sizes: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return each stretch's tensor and first element, and each tensor's first stretch and one past the last."""
    stretch = _BLOCK * _ROUNDS
    counts = [-(-size // stretch) for size in sizes]
    owners = [row for row, count in enumerate(counts) for _ in range(count)]
    starts = [part * stretch for count in counts for part in range(count)]
    firsts = [sum(counts[:row]) for row in range(len(counts) + 1)]
    return tuple(torch.tensor(column, dtype=torch.int64).to(device) for column in (owners, starts, firsts))


def _moved(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the table on the device, sent from memory that the device reads by itself, so that nobody waits."""
    return table if device.type == "cpu" else table.pin_memory().to(device, non_blocking=True)
