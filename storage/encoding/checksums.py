"""Checksums of stored bytes and text, each bound to the place where it belongs.

A checksum is the lower half of XXH3-64 (Y. Collet, xxHash 0.8), seeded with the place: the columns that say which run,
stream and steps the bytes are of. Intact bytes in a wrong place therefore differ as well.
"""

from typing import Final

import xxhash

from ..errors import StoreDamaged

#: What names a place: the values of the other columns of a row.
Place = int | float | str | None
#: The first byte of sealed bytes. Unsealed ones of older versions begin with the 0x28 of a zstd frame.
_MARK: Final = b"\x01"
_HEAD: Final = 5


class ChecksumDiffers(StoreDamaged):
    """Stored bytes are not what was written there."""

    def __init__(self) -> None:
        super().__init__("its checksum differs")


def checksum(data: bytes, *place: Place) -> int:
    """Return 32 bits that depend on every byte and on the place."""
    seed = xxhash.xxh3_64_intdigest(repr(place).encode(errors="surrogatepass"))
    return xxhash.xxh3_64_intdigest(data, seed) & 0xFFFFFFFF


def seal(data: bytes, *place: Place) -> bytes:
    """Return the data behind its checksum, five bytes longer."""
    return b"".join((_MARK, checksum(data, *place).to_bytes(4, "little"), data))


def unseal(data: bytes, *place: Place) -> bytes:
    """Return what `seal` was given.

    Raises:
        ChecksumDiffers: A byte or the place differs.
    """
    if not isinstance(data, bytes):  # a damaged file holds values of any type in any column
        raise ChecksumDiffers
    rest = data[_HEAD:]
    if data[:1] != _MARK or int.from_bytes(data[1:_HEAD], "little") != checksum(rest, *place):
        raise ChecksumDiffers
    return rest


def unseal_frame(data: bytes, *place: Place) -> bytes:
    """Return a zstd frame that was sealed, or one of an older version as it is; raise as `unseal`."""
    is_plain = isinstance(data, bytes) and data[:4] == b"\x28\xb5\x2f\xfd"
    return data if is_plain else unseal(data, *place)


def seal_text(text: str, *place: Place) -> str:
    """Return JSON text behind its checksum of eight hexadecimal digits."""
    return f"{checksum(text.encode(errors='surrogatepass'), *place):08x}{text}"


def unseal_text(text: str, *place: Place) -> str:
    """Return what `seal_text` was given; text of an older version, which begins with a brace, as it is.

    Raises:
        ChecksumDiffers: A character or the place differs.
    """
    if not isinstance(text, str):  # as above
        raise ChecksumDiffers
    if text[:1] == "{":
        return text
    rest = text[8:]
    if text[:8] != f"{checksum(rest.encode(errors='surrogatepass'), *place):08x}":
        raise ChecksumDiffers
    return rest
