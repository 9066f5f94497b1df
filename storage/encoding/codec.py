"""Arrays as compressed bytes and back, exactly: byte-shuffle, then zstd at level 1.

Bytes of equal weight are grouped, since signs, exponents and high mantissa bytes hardly change from step to step.
Counts and norms that fit into a narrower type exactly are stored in it.
"""

import threading
from typing import Any, Final

import numpy as np
import zstandard
from numpy.typing import NDArray

from ..errors import StoreDamaged

_local = threading.local()


def compress(data: bytes) -> bytes:
    """Return the data compressed by zstd at level 1, with its length in the frame."""
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=1, write_checksum=False)
    packed: bytes = _local.compressor.compress(data)
    return packed


def decompress(data: bytes) -> bytes:
    """Return what `compress` was given.

    Raises:
        StoreDamaged: The bytes were not made by `compress`.
    """
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        raw: bytes = _local.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise StoreDamaged(f"compressed data cannot be read: {error}") from error
    return raw


def shuffle(values: NDArray[np.generic]) -> bytes:
    """Return the bytes of an array, grouped by weight."""
    width = values.dtype.itemsize
    return values.tobytes() if width == 1 else values.reshape(-1, 1).view(np.uint8).T.tobytes()


def unshuffle(data: bytes, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """Return the array, flat, that `shuffle` was given."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if dtype.itemsize == 1:
        return raw
    return np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).view(dtype).ravel()


#: The dtype of each code; code 0 means all zeros, without bytes.
DTYPES: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    14: np.dtype("<f4"),
    18: np.dtype("<f8"),
}


#: Version of the format; stored beside every compressed array.
CODEC_VERSION = 1
#: The code of an array of equal values, stored as one value.
_CONSTANT = 255
#: The code of float64.
WIDEST = 18


def encode(values: NDArray[np.float64], code: int | None = None) -> bytes:
    """Return float64 values as bytes, of which the first is the code; all zeros take one byte, equal values nine.

    Args:
        code: The result of `narrowest` for these values or for a larger set of them.
    """
    if code == 0 or not values.size:
        return b"\0"
    first = values.flat[0]
    if bool((values == first).all()):  # first, since most counts of most buckets are equal
        if first != 0.0:
            return bytes((_CONSTANT,)) + first.tobytes()
        if not np.signbit(values).any():
            return b"\0"
    if code is None:
        code = narrowest(values)
    return bytes((code,)) + compress(shuffle(values.astype(DTYPES[code])))


def decode(data: bytes, shape: tuple[int, int], rows: slice = slice(None)) -> NDArray[np.float64]:
    """Return some rows of the values that `encode` was given, in their shape; read-only.

    Raises:
        StoreDamaged: The bytes are not an array of that shape.
    """
    return _widen(_decode(data, shape, rows), np.dtype(np.float64))


def decode_narrow(data: bytes, shape: tuple[int, int], rows: slice = slice(None)) -> NDArray[Any]:  # Any: as stored
    """Return the values as by `decode`, but in their stored dtype; a later copy can widen them.

    Raises:
        StoreDamaged: The bytes are not an array of that shape.
    """
    return _decode(data, shape, rows)


def decode_counts(data: bytes, shape: tuple[int, int], rows: slice = slice(None)) -> NDArray[np.int64]:
    """Return some rows of counts that `encode` was given as float64, in their shape; read-only.

    Raises:
        StoreDamaged: The bytes are not an array of that shape.
    """
    return _widen(_decode(data, shape, rows), np.dtype(np.int64))


def all_equal(value: np.generic, shape: tuple[int, ...]) -> NDArray[Any]:  # Any: the value's type
    """Broadcast one value to a read-only array, three times as fast as NumPy's own function."""
    return np.ndarray(shape, value.dtype, value.tobytes(), strides=(0,) * len(shape))


def narrowest(values: NDArray[np.float64]) -> int:
    """Return the code of the narrowest type that keeps every bit (for NaN only that it is NaN)."""
    if not values.any() and not np.signbit(values).any():
        return 0
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = values.min(), values.max()
        if low >= 0 and high < 2**32 and (values == np.floor(values)).all() and not np.signbit(values).any():
            return 1 if high < 2**8 else 2 if high < 2**16 else 4
        exact = values.astype(np.float32).astype(np.float64) == values
        return 14 if (exact | np.isnan(values)).all() else WIDEST


def _decode(data: bytes, shape: tuple[int, int], rows: slice) -> NDArray[Any]:  # Any: of the type that the code names
    begin, end, _ = rows.indices(shape[0])
    part = (end - begin, shape[1])
    if data == b"\0":
        return all_equal(np.uint8(0), part)
    try:
        if data[0] == _CONSTANT:
            return all_equal(np.frombuffer(data[1:], dtype="<f8")[0], part)
        dtype = DTYPES[data[0]]
        raw = np.frombuffer(decompress(data[1:]), dtype=np.uint8).reshape(dtype.itemsize, shape[0] * shape[1])
    except (KeyError, IndexError, ValueError) as error:
        raise StoreDamaged(f"an array of shape {shape} cannot be read: {error}") from error
    planes = raw[:, begin * shape[1] : end * shape[1]]
    turned = np.empty(planes.shape[::-1], dtype=np.uint8)
    for at, plane in enumerate(planes):
        turned[:, at] = plane
    return turned.view(dtype).reshape(part)


def _widen(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:  # Any: the dtype that is asked for
    """Return the values in another dtype; a broadcast value stays broadcast."""
    if values.size and not any(values.strides):
        return all_equal(values.flat[0].astype(dtype), values.shape)
    return values.astype(dtype, copy=False)


def encode_steps(values: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
    """Return ascending 64-bit numbers (steps, times) as bytes: their differences, shuffled and compressed."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return compress(shuffle(np.diff(bits, prepend=np.uint64(0))))


def decode_steps(data: bytes) -> NDArray[np.int64]:
    """Return what `encode_steps` was given; times are read with `.view(np.float64)`."""
    return np.cumsum(unshuffle(decompress(data), np.dtype("<u8")), dtype=np.uint64).view(np.int64)


def encode_flags(flags: NDArray[np.bool_]) -> bytes:
    """Return flags as compressed bits; nothing when all of them are set."""
    return b"" if flags.all() else compress(np.packbits(flags).tobytes())


def decode_flags(data: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the flags that `encode_flags` was given, in their shape."""
    if not data:
        return np.ones(shape, dtype=np.bool_)
    bits = np.frombuffer(decompress(data), dtype=np.uint8)
    return np.unpackbits(bits, count=int(np.prod(shape))).astype(np.bool_).reshape(shape)
