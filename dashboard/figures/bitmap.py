"""Small pictures of inputs as PNG, so that a page carries them without asking anybody."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOR = 0, 2


def bitmap(pixels: NDArray[np.float64]) -> str:
    """The `data:` address of a PNG, lossless; PNG 1.2, W3C 2003.

    Args:
        pixels: `(height, width, channels)` within 0 and 1, one channel or three; what lies beyond is cut.
    """
    levels = np.round(np.clip(np.nan_to_num(pixels), 0, 1) * 255).astype(np.uint8)
    height, width, channels = levels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line begins with its filter, 0 for none
    lines[:, 1:] = levels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _GREY if channels == 1 else _COLOR, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines.tobytes())), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(_SIGNATURE + b"".join(chunks)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def magnified(change: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The change around middle grey, as strong as it can be shown, and how many times that is its own strength."""
    largest = float(np.abs(change).max(initial=0.0))
    times = 0.5 / largest if largest > 0 else 1.0
    return 0.5 + change * times, times
