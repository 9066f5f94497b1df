"""Images and sounds that belong to an event: pixels and samples as the training gave them, and the files they become.

A training pays for a copy of the values. The writer thread makes the file: PNG (W3C, Portable Network Graphics, third
edition) and WAV (RIFF, 16-bit PCM), which lose nothing of 8-bit pixels and 16-bit samples.
"""

import io
import struct
import wave
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: The event of an image or a sound; docs/scalars.md has its fields.
MEDIA: Final = "media"

#: Colour types of PNG by the number of channels.
_COLOURS: Final = {1: 0, 3: 2, 4: 6}
#: The first bytes of files that come from elsewhere, and what they are.
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "audio/wav"),
)
#: Compression of PNG: higher levels save a tenth of the bytes of photographs for five times the time.
_LEVEL: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Attachment:
    """The content of an event's file.

    Args:
        content: Pixels `(height, width, 1, 3 or 4)` uint8; samples `(frames, channels)` int16; or a file as it is.
        rate: Frames a second, of samples.
    """

    content: NDArray[np.uint8] | NDArray[np.int16] | bytes
    rate: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes that the content takes in memory."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.nbytes

    def digest(self) -> str:
        """Return 32 hexadecimal digits that depend on every byte: BLAKE2b, as of whole tensors."""
        if isinstance(self.content, bytes):
            return blake2b(self.content, digest_size=16).hexdigest()
        state = blake2b(f"{self.content.dtype}{self.content.shape}{self.rate}".encode(), digest_size=16)
        state.update(np.ascontiguousarray(self.content).tobytes())
        return state.hexdigest()

    def file(self) -> bytes:
        """Return the bytes of the file."""
        if isinstance(self.content, bytes):
            return self.content
        return _wav(self.content, self.rate) if self.content.dtype == np.int16 else _png(self.content)


def media_type_of(file: bytes) -> str | None:
    """Return the media type of a file by its first bytes; None of one that no page shows."""
    return next((name for magic, name in _MAGIC if file.startswith(magic)), None)


def _png(pixels: NDArray[np.uint8] | NDArray[np.int16]) -> bytes:
    """Return the pixels as PNG, each line as its difference from the line above (filter 2)."""
    height, width, channels = pixels.shape
    rows = np.ascontiguousarray(pixels, np.uint8).reshape(height, width * channels)
    lines = np.empty((height, width * channels + 1), np.uint8)
    lines[:, 0] = 2
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])  # modulo 256, as the filter asks
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    body = zlib.compress(lines.tobytes(), _LEVEL)
    return b"".join((_MAGIC[0][0], _chunk(b"IHDR", head), _chunk(b"IDAT", body), _chunk(b"IEND", b"")))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _wav(samples: NDArray[np.uint8] | NDArray[np.int16], rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(np.ascontiguousarray(samples, "<i2").tobytes())
    return file.getvalue()
