"""What is counted in one pass: values in the bins of a histogram, tokens, and units that are silent."""

import numpy as np
from numba import carray

from ..raw_memory import CHUNK, FLOAT32, FLOAT64, Floats, Ints, Reals
from ..tokens import BUCKETS, KEPT
from .memory import compiled, decode, pointer, stack

_SINGLES, _COUNTS = stack(CHUNK * 4), stack(BUCKETS * 8)
_LAST = BUCKETS - 1
_SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)
#: Masks of all bits but the sign; zero of either sign has none of them set.
_MAGNITUDE64, _MAGNITUDE32, _MAGNITUDE16 = np.int64(0x7FFFFFFFFFFFFFFF), np.int32(0x7FFFFFFF), np.uint16(0x7FFF)


@compiled()
def _count_by_share(x: Reals, low: float, scale: float, counts: Ints) -> None:
    last = counts.size - 1
    for i in range(x.size):
        position = (np.float64(x[i]) - low) * scale
        if position == position and abs(position) < np.inf:  # a value that is not finite has no place
            counts[min(max(int(position), 0), last)] += 1


def count_values(address: int, size: int, code: int, low: float, high: float, counts_at: int, bins: int) -> None:
    """Add the finite values of one array to equal bins, as `histogram_bins.count_values`."""
    counts, scale = carray(pointer(counts_at), (bins,), np.int64), bins / (high - low)
    if code == FLOAT32:
        _count_by_share(carray(pointer(address), (size,), np.float32), low, scale, counts)
    elif code == FLOAT64:
        _count_by_share(carray(pointer(address), (size,), np.float64), low, scale, counts)
    else:
        raw, values = carray(pointer(address), (size,), np.uint16), carray(_SINGLES(), (CHUNK,), np.float32)
        for start in range(0, size, CHUNK):
            chunk = raw[start : start + CHUNK]
            decode(chunk, code, values[: chunk.size])
            _count_by_share(values[: chunk.size], low, scale, counts)


@compiled()
def _exponent(value: float) -> int:
    """Return what `math.frexp` gives of a positive finite number, without numba's own function for it."""
    shift = 0
    if value < _SMALLEST_NORMAL:
        value, shift = value * 2.0**64, 64
    return int((np.float64(value).view(np.int64) >> 52) - 1022 - shift)


@compiled()
def _count_by_octave(x: Reals, top: int, counts: Ints) -> None:
    half = counts.size // 2
    for i in range(x.size):
        value = np.float64(x[i])
        if not abs(value) < np.inf:  # a value that is not finite has no place
            continue
        octave = half - 1
        if value != 0.0:
            octave = min(max(top - _exponent(abs(value)), 0), half - 1)
        counts[octave if value < 0.0 else 2 * half - 1 - octave] += 1


def count_octaves(address: int, size: int, code: int, top: int, counts_at: int, bins: int) -> None:
    """Add the finite values of one array to bins that halve towards zero, as `histogram_bins.count_octaves`."""
    counts = carray(pointer(counts_at), (bins,), np.int64)
    if code == FLOAT32:
        _count_by_octave(carray(pointer(address), (size,), np.float32), top, counts)
    elif code == FLOAT64:
        _count_by_octave(carray(pointer(address), (size,), np.float64), top, counts)
    else:
        raw, values = carray(pointer(address), (size,), np.uint16), carray(_SINGLES(), (CHUNK,), np.float32)
        for start in range(0, size, CHUNK):
            chunk = raw[start : start + CHUNK]
            decode(chunk, code, values[: chunk.size])
            _count_by_octave(values[: chunk.size], top, counts)


@compiled()
def _count_tokens(tokens: Ints, before: Floats, out: Floats) -> None:
    out[:] = np.nan
    if tokens.size == 0:
        return
    counts = carray(_COUNTS(), (BUCKETS,), np.float64)
    counts[:] = 0.0
    for i in range(tokens.size):
        counts[tokens[i] & _LAST] += 1.0
    total, known = float(tokens.size), before.sum()
    entropy, top, divergence = 0.0, 0.0, 0.0
    for bucket in range(BUCKETS):
        count = counts[bucket]
        if count > 0.0:
            share = count / total
            entropy -= share * np.log(share)
            top = max(top, share)
            divergence += share * np.log(share * (known + BUCKETS) / (before[bucket] + 1.0))
        before[bucket] = KEPT * before[bucket] + count
    out[0], out[1] = entropy, top
    if known > 0.0:
        out[2] = divergence


def count_tokens(tokens_at: int, size: int, is_wide: int, before_at: int, out_at: int) -> None:
    """Count int64 or int32 tokens, as `tokens.count_tokens`."""
    before, out = carray(pointer(before_at), (BUCKETS,), np.float64), carray(pointer(out_at), (3,), np.float64)
    if is_wide:
        _count_tokens(carray(pointer(tokens_at), (size,), np.int64), before, out)
    else:
        _count_tokens(carray(pointer(tokens_at), (size,), np.int32), before, out)


def count_silent(
    address: int,
    code: int,
    units: int,
    inner: int,
    first: int,
    stride: int,
    count: int,
    silent_at: int,
    looks: int,
) -> int:
    """Count the units that were zero at every sample of the last `looks` looks, this one included.

    Args:
        address: Where an output `(outer, units, inner)` lies, whose samples are `outer` times `inner`.
        code: Of its dtype.
        first, stride, count: Which samples are looked at.
        silent_at: Where for every unit the number of its last looks in a row lies that it was zero at, as int64;
            this one is added.
        looks: Of how many looks.
    """
    silent = carray(pointer(silent_at), (units,), np.int64)
    for unit in range(units):
        silent[unit] += 1
    size = 8 if code == FLOAT64 else 4 if code == FLOAT32 else 2
    for sample in range(first, first + stride * count, stride):
        begin = address + size * ((sample // inner) * units * inner + sample % inner)
        length = (units - 1) * inner + 1
        if code == FLOAT64:
            wide = carray(pointer(begin), (length,), np.int64)
            for unit in range(units):
                silent[unit] = silent[unit] if (wide[unit * inner] & _MAGNITUDE64) == 0 else 0
        elif code == FLOAT32:
            single = carray(pointer(begin), (length,), np.int32)
            for unit in range(units):
                silent[unit] = silent[unit] if (single[unit * inner] & _MAGNITUDE32) == 0 else 0
        else:
            half = carray(pointer(begin), (length,), np.uint16)
            for unit in range(units):
                silent[unit] = silent[unit] if (half[unit * inner] & _MAGNITUDE16) == 0 else 0
    found = 0
    for unit in range(units):
        found += silent[unit] >= looks
    return found
