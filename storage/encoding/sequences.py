"""What many values share, as bytes and back: ascending steps and times, and flags."""

import numpy as np
from numpy.typing import NDArray

from .compression import compress, decompress, shuffle, unshuffle


def encode_steps(values: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
    """Ascending 64-bit numbers (steps, times) as bytes: their differences, shuffled and compressed."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return compress(shuffle(np.diff(bits, prepend=np.uint64(0))))


def decode_steps(data: bytes) -> NDArray[np.int64]:
    """What `encode_steps` was given; times are read with `.view(np.float64)`."""
    return np.cumsum(unshuffle(decompress(data), np.dtype("<u8")), dtype=np.uint64).view(np.int64)


def encode_flags(flags: NDArray[np.bool_]) -> bytes:
    """Flags as compressed bits; nothing when all of them are set."""
    return b"" if flags.all() else compress(np.packbits(flags).tobytes())


def decode_flags(data: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The flags that `encode_flags` was given, in their shape."""
    if not data:
        return np.ones(shape, dtype=np.bool_)
    bits = np.frombuffer(decompress(data), dtype=np.uint8)
    return np.unpackbits(bits, count=int(np.prod(shape))).astype(np.bool_).reshape(shape)
