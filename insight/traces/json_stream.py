"""Reads the JSON of a trace value by value, within bounds: no file is held whole, and a damaged one ends with a reason.

A trace that was cut off, as by a killed job or a full disk, is the usual damage. What came before the cut is read.
"""

import codecs
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final

from ..errors import UnreadableTrace

__all__ = ["JsonStream"]

_CHUNK: Final = 2**22
#: The longest single value that is read. Our choice: the largest header, of 4,096 ranks in 100 groups, has 3 MB.
_LONGEST: Final = 2**25
#: The most text of one file (our choice: an hour of a job; `MOST_EVENTS` of the events bounds memory first).
_MOST_BYTES: Final = 2**35
_BLANK: Final = re.compile(r"[ \t\r\n,]*")
#: How a file begins that gzip has packed, and what zlib calls that form.
_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = zlib.MAX_WBITS | 16


class JsonStream:
    """A file, compressed by gzip or plain, as JSON values that are read one after the other.

    Attributes:
        damage: Why reading ended early; empty while all is well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self._text, self._at, self._read_bytes = "", 0, 0
        self._chunks = self._decoded()
        self._scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # Any: JSON

    def close(self) -> None:
        """Close the file, which stays open until it is read to its end."""
        self._chunks.close()

    def character(self) -> str:
        """Return the next character that is no blank and no comma, without taking it; empty at the end."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches always
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, character: str) -> bool:
        """Take the character if it is the next; return whether it was."""
        if self.character() != character:
            return False
        self._at += 1
        return True

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that begins here; the value of each must be taken before the next."""
        while self.character() not in ("", "}") and not self.damage:
            key = self.value()
            if not isinstance(key, str) or not self.take(":"):
                self.damage = self.damage or "a key with a colon is missing"
                return
            yield key
        if not self.take("}"):
            self.damage = self.damage or "it ends in the middle"

    def elements(self) -> Iterator[Any]:  # Any: JSON
        """Yield the values of the array whose bracket was taken."""
        scan, blank = self._scan, _BLANK.match
        while True:
            self._at = blank(self._text, self._at).end()  # type: ignore[union-attr]  # matches always
            try:
                if self._text[self._at] == "]":
                    self._at += 1
                    return
                value, self._at = scan(self._text, self._at)
            except (StopIteration, ValueError, IndexError, RecursionError):
                if self._ended():
                    return
                value = self.value()
                if self.damage:
                    return
            yield value

    def value(self) -> Any:  # Any: JSON
        """Take and return the next value; None, and a damage, where there is none."""
        self.character()
        while True:
            reason = "it ends in the middle"
            try:
                value, end = self._scan(self._text, self._at)
                if end < len(self._text) or not self._more():
                    self._at = min(end, len(self._text))
                    return value
                continue
            except StopIteration:
                pass
            except RecursionError:
                reason = "values stand too deep in each other"
            except ValueError as error:
                reason = str(error).partition(": line")[0].lower()
            if len(self._text) - self._at > _LONGEST or not self._more():
                self.damage = self.damage or reason
                return None

    def _ended(self) -> bool:
        """Return whether the array ends here; the end of the file is a damage."""
        if self.character() == "":
            self.damage = self.damage or "it ends in the middle"
            return True
        return self.take("]")

    def _more(self) -> bool:
        """Add a chunk to what waits to be read; return False at the end of the file."""
        for chunk in self._chunks:
            self._text, self._at = self._text[self._at :] + chunk, 0
            return True
        return False

    def _decoded(self) -> Generator[str, None, None]:
        decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        try:
            with self.path.open("rb") as file:
                is_packed = file.read(2) == _MAGIC
                file.seek(0)
                for chunk in self._unpacked(file) if is_packed else iter(lambda: file.read(_CHUNK), b""):
                    self._read_bytes += len(chunk)
                    if self._read_bytes > _MOST_BYTES:
                        self.damage = f"it holds more than {_MOST_BYTES >> 30} GiB of text"
                        return
                    yield decoder.decode(chunk)
        except OSError as error:
            raise UnreadableTrace(
                f"the trace {str(self.path)!r} cannot be read: {error.strerror or error}; name a file that "
                "torch.profiler's export_chrome_trace has written"
            ) from None

    def _unpacked(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield what the compressed file holds up to its damage; `gzip` would drop the last piece."""
        unpack, packed = zlib.decompressobj(_GZIP), b""
        while packed := packed or file.read(_CHUNK):
            if unpack.eof:  # a file may have several members
                unpack = zlib.decompressobj(_GZIP)
            try:
                yield unpack.decompress(packed, _CHUNK)
            except zlib.error as error:
                self.damage = f"its compression is damaged ({error})"
                return
            packed = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
        if not unpack.eof:
            self.damage = "it ends in the middle of its compression"
