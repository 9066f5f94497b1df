"""Reads the arrays of an `.npz` file that may be damaged, of another format, or made to fill the memory."""

import lzma
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnreadableArrays", "read_npz"]

#: What NumPy and zipfile raise for damage: they leave much of the checking to the modules below them.
_DAMAGE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
    *(ValueError, OSError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError, SyntaxError),
    *(RuntimeError, MemoryError),  # of encrypted files and unknown compressions, and of shapes that fit nowhere
)


class UnreadableArrays(ValueError):
    """The file is no `.npz` file, is damaged, or holds objects."""


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays by name; Python objects in the file are never loaded.

    Raises:
        UnreadableArrays: The file is no `.npz` file, is damaged, or holds objects.
        FileNotFoundError: There is no file.
    """
    found = {}
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                for name in arrays:
                    found[name] = arrays[name]
        except _DAMAGE as error:
            said = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise UnreadableArrays(f"{path} is no .npz file, or damaged: {said[:200]}") from error
    odd = [name for name, array in found.items() if not isinstance(array, np.ndarray)]
    if odd:
        raise UnreadableArrays(f"{path} holds {odd[0][:80]!r}, which is no array")
    return found
