"""The ten statistics by Triton kernels: all tensors of one type in a launch, each element read once, and one to join.

A program of the first kernel has a stretch of one tensor. Every lane sums its elements and their squares, both around
the mean of the stretch's first finite block; the lanes are added up once, at the end. Whole blocks are read without a
mask, so that the device reads 16 bytes at a time. Only where the sum turns out not to be finite is the stretch walked
once more, with a look at every element. The second kernel has a program for every tensor, which joins the stretches
(Chan, Golub and LeVeque 1979). All sums are float64. What is compared or counted is so in the element's own type,
float32 for 16 bits: counting in float64 took longer than the elements take to arrive. Squares that leave float64's
range make norm and deviation infinite.

Agrees with the reference to 1e-12 relative. Sums around a shift c lose at most the factor 1 + (c - mean)^2 / variance,
which is at most the elements of a stretch over those of the block that c is the mean of: 128, seven bits of 53.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import torch
import triton
import triton.language as tl

_BLOCK = 512
#: Block and warps: the fastest of 512 to 4096 and 2 to 8 on an H100, 2.7 TB/s where a copy moves 3.0.
_WARPS = 4
#: Blocks that one program walks: 64 Ki elements, so that the partial results are a ten-thousandth of the data. At most
#: 255, since four counts of one lane share 32 bits.
_ROUNDS = 128
#: Elements of a stretch.
STRETCH = _BLOCK * _ROUNDS
#: Stretches that the second kernel joins at a time.
_JOINED = 1024
#: Partial results: count, mean, squares around it, smallest, largest, zeros, NaN, +Inf, -Inf.
_FIELDS = 9
#: Where whole blocks may be read 16 bytes at a time.
_ALIGNED_BYTES = 16

#: How the kernel is told the element type.
_CODES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}
_dtype = attrgetter("dtype")


@triton.jit
def begin_of(address, CODE: tl.constexpr, IS_ALIGNED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Pointer to the first element at an address."""
    if CODE == 0:
        begin = address.to(tl.pointer_type(tl.float32))
    elif CODE == 1:
        begin = address.to(tl.pointer_type(tl.float64))
    elif CODE == 2:
        begin = address.to(tl.pointer_type(tl.float16))
    else:
        begin = address.to(tl.pointer_type(tl.bfloat16))
    if IS_ALIGNED:
        begin = tl.multiple_of(begin, 16)
    return begin


@triton.jit
def wide(x):  # type: ignore[no-untyped-def]
    """The elements as they are compared: float64 as it is, all others as float32."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@triton.jit
def _finite_added(x, shift, sums, squares, low, high, counts):  # type: ignore[no-untyped-def]
    away = x.to(tl.float64) - shift
    counts += tl.where(x == 0.0, 1, 0)
    return sums + away, squares + away * away, tl.minimum(low, x), tl.maximum(high, x), counts


@triton.jit
def _added(x, inside, shift, sums, squares, low, high, counts):  # type: ignore[no-untyped-def]
    infinity = float("inf")
    finite = inside & (tl.abs(x) < infinity)
    away = tl.where(finite, x.to(tl.float64) - shift, 0.0)
    kind = tl.where(x == infinity, 1 << 16, tl.where(x == -infinity, 1 << 24, 0))
    kind = tl.where(x == 0.0, 1, tl.where(x != x, 1 << 8, kind))
    low = tl.minimum(low, tl.where(finite, x, infinity))
    high = tl.maximum(high, tl.where(finite, x, -infinity))
    return sums + away, squares + away * away, low, high, counts + tl.where(inside, kind, 0)


@triton.jit
def _stretches(  # type: ignore[no-untyped-def]
    places,
    members,
    owners,
    starts,
    partials,
    CODE: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    program = tl.load(members + tl.program_id(0))
    row = tl.load(owners + program)
    begin = begin_of(tl.load(places + 2 * row), CODE, IS_ALIGNED)
    start = tl.multiple_of(tl.load(starts + program), BLOCK)
    size = tl.minimum(tl.load(places + 2 * row + 1) - start, BLOCK * ROUNDS)
    lanes = tl.arange(0, BLOCK)
    shift = tl.zeros((), tl.float64)
    finite_count = tl.zeros((), tl.int32)
    number = tl.zeros((), tl.int64)
    while (finite_count == 0) & (number < size):
        x = wide(tl.load(begin + start + number + lanes, mask=number + lanes < size, other=float("nan")))
        finite = tl.abs(x) < float("inf")
        finite_count = tl.sum(finite.to(tl.int32), 0)
        share = 1.0 / tl.maximum(finite_count, 1).to(tl.float64)
        shift = tl.sum(tl.where(finite, x.to(tl.float64), 0.0) * share, 0)
        number += BLOCK
    compared = tl.float64 if CODE == 1 else tl.float32
    sums = tl.zeros((BLOCK,), tl.float64)
    squares = tl.zeros((BLOCK,), tl.float64)
    low = tl.full((BLOCK,), float("inf"), compared)
    high = tl.full((BLOCK,), float("-inf"), compared)
    counts = tl.zeros((BLOCK,), tl.int32)
    whole = size - size % BLOCK
    for at in range(0, whole, BLOCK):
        x = wide(tl.load(begin + start + tl.multiple_of(at, BLOCK) + lanes))
        sums, squares, low, high, counts = _finite_added(x, shift, sums, squares, low, high, counts)
    total = tl.sum(sums, 0)
    if (total - total) != 0.0:  # something is not finite, or overflowed: once more, with a look at each
        sums = tl.zeros((BLOCK,), tl.float64)
        squares = tl.zeros((BLOCK,), tl.float64)
        low = tl.full((BLOCK,), float("inf"), compared)
        high = tl.full((BLOCK,), float("-inf"), compared)
        counts = tl.zeros((BLOCK,), tl.int32)
        for at in range(0, whole, BLOCK):
            x = wide(tl.load(begin + start + tl.multiple_of(at, BLOCK) + lanes))
            sums, squares, low, high, counts = _added(x, lanes >= 0, shift, sums, squares, low, high, counts)
    if whole < size:
        inside = whole + lanes < size
        x = wide(tl.load(begin + start + whole + lanes, mask=inside, other=0.0))
        sums, squares, low, high, counts = _added(x, inside, shift, sums, squares, low, high, counts)
    nans = tl.sum((counts >> 8) & 255, 0)
    positive = tl.sum((counts >> 16) & 255, 0)
    negative = tl.sum((counts >> 24) & 255, 0)
    n = (size - nans - positive - negative).to(tl.float64)
    total = tl.sum(sums, 0)
    out = partials + program * 9
    tl.store(out, n)
    tl.store(out + 1, shift + total / tl.maximum(n, 1.0))
    tl.store(out + 2, tl.maximum(tl.sum(squares, 0) - total * (total / tl.maximum(n, 1.0)), 0.0))
    tl.store(out + 3, tl.min(low, 0).to(tl.float64))
    tl.store(out + 4, tl.max(high, 0).to(tl.float64))
    tl.store(out + 5, tl.sum(counts & 255, 0).to(tl.float64))
    tl.store(out + 6, nans.to(tl.float64))
    tl.store(out + 7, positive.to(tl.float64))
    tl.store(out + 8, negative.to(tl.float64))


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
    tl.store(out + 9, tl.load(places + 2 * row + 1).to(tl.float64))


def measure_fused(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return `(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: On one device, of float32, float64, float16 or bfloat16, filling their memory without gaps. They must
            not be freed before the current stream has passed this call; the caching allocator sees to that.
    """
    device = tensors[0].device
    plan, places = plan_of(tensors)
    rows = torch.empty((len(tensors), 10), dtype=torch.float64, device=device)
    partials = torch.empty((max(plan.owners.numel(), 1), _FIELDS), dtype=torch.float64, device=device)
    for (code, is_aligned), members in plan.members.items():
        _stretches[(members.numel(),)](
            *(places, members, plan.owners, plan.starts, partials),
            CODE=code,
            IS_ALIGNED=is_aligned,
            BLOCK=_BLOCK,
            ROUNDS=_ROUNDS,
            num_warps=_WARPS,
        )
    _join[(len(tensors),)](partials, plan.firsts, places, rows, JOINED=_JOINED)
    return rows


class Plan(NamedTuple):
    """Where the stretches lie.

    Attributes:
        members: By element type and alignment the stretches of such tensors, each of which is launched by itself.
        owners: Of each stretch the tensor.
        starts: Of each stretch the first element.
        firsts: Of each tensor the first stretch, and at the end one past the last.
    """

    members: dict[tuple[int, bool], torch.Tensor]
    owners: torch.Tensor
    starts: torch.Tensor
    firsts: torch.Tensor


def plan_of(tensors: Sequence[torch.Tensor]) -> tuple[Plan, torch.Tensor]:
    """Return where the stretches of the tensors lie, and on their device the `(n, 2)` addresses and sizes."""
    addresses, sizes = tuple(map(torch.Tensor.data_ptr, tensors)), tuple(map(torch.Tensor.numel, tensors))
    codes = map(_CODES.__getitem__, map(_dtype, tensors))
    kinds = tuple((code, address % _ALIGNED_BYTES == 0) for code, address in zip(codes, addresses, strict=True))
    device = tensors[0].device
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
    return _plan(sizes, kinds, device, stream), _places(addresses, sizes, device, stream)


@lru_cache(maxsize=64)
def _places(addresses: tuple[int, ...], sizes: tuple[int, ...], device: torch.device, stream: int) -> torch.Tensor:
    """Return the table; that of weights and of what an optimizer keeps is the same in every step.

    Args:
        addresses, sizes, device: Of the tensors.
        stream: In whose order the table is sent: another one would have to wait for it.
    """
    return moved(torch.tensor(list(zip(addresses, sizes, strict=True)), device="cpu"), device)


@lru_cache(maxsize=256)
def _plan(sizes: tuple[int, ...], kinds: tuple[tuple[int, bool], ...], device: torch.device, stream: int) -> Plan:
    counts = [-(-size // STRETCH) for size in sizes]
    owners = [row for row, count in enumerate(counts) for _ in range(count)]
    starts = [part * STRETCH for count in counts for part in range(count)]
    firsts = [sum(counts[:row]) for row in range(len(counts) + 1)]
    members: dict[tuple[int, bool], list[int]] = {}
    for number, row in enumerate(owners):
        members.setdefault(kinds[row], []).append(number)

    def sent(column: Sequence[int]) -> torch.Tensor:
        return moved(torch.tensor(column, dtype=torch.int64, device="cpu"), device)

    by_kind = {kind: sent(numbers) for kind, numbers in members.items()}
    return Plan(by_kind, sent(owners), sent(starts), sent(firsts))


def moved(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the table on the device, sent from memory that the device reads by itself, so that nobody waits."""
    return table if device.type == "cpu" else table.pin_memory().to(device, non_blocking=True)
