"""Bytes put in the order that compresses best, made smaller by zstd at level 1, and made whole again."""

import threading

import numpy as np
import zstandard
from numpy.typing import NDArray

from ..errors import StoreDamaged

_local = threading.local()


def compress(data: bytes) -> bytes:
    """The data compressed by zstd at level 1, with its length in the frame."""
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=1, write_checksum=False)
    packed: bytes = _local.compressor.compress(data)
    return packed


def decompress(data: bytes) -> bytes:
    """What `compress` was given.

    Raises:
        StoreDamaged: The bytes are not what `compress` gave.
    """
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        raw: bytes = _local.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise StoreDamaged(f"compressed data cannot be read: {error}") from error
    return raw


def shuffle(values: NDArray[np.generic]) -> bytes:
    """The bytes of an array, those of equal weight together."""
    width = values.dtype.itemsize
    return values.tobytes() if width == 1 else values.reshape(-1, 1).view(np.uint8).T.tobytes()


def unshuffle(data: bytes, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """The array, flat, that `shuffle` was given."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if dtype.itemsize == 1:
        return raw
    return np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).view(dtype).ravel()
