"""Kernels without the compiler: numba compiles each once per machine and version, later processes load what it made.

Importing numba and letting it load what it has cached takes a second and 120 MB in every process that trains. A kernel
is a function of numbers and addresses that calls nothing but the C library. Its object file is kept in the user's cache
folder, under a name that says for which source and which processor it is; loading it takes a millisecond. Where it
cannot be kept or loaded (another operating system or processor, no folder to write to, no memory that may be executed),
numba compiles in this process.
"""

import ctypes
import hashlib
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from .object_file import Code, ObjectError

_log = logging.getLogger(__name__)
_TYPES: Final[dict[str, Any]] = {"v": None, "q": ctypes.c_int64, "d": ctypes.c_double}
_SOURCE: Final = Path(__file__).parent
#: Files beside the source whose constants are compiled in.
_CONSTANTS: Final = ("more.py", "raw_memory.py", "tokens.py")
#: Bytes of the checksum before an object file.
_CHECK: Final = 32


class Kernel:
    """A compiled function, which is loaded at its first call; it works without the interpreter's lock.

    Args:
        file: Of its source in `compiled/`.
        name: Its name there.
        result, arguments: A letter for each type: `v` nothing, `q` int64, `d` float64.
    """

    __slots__ = ("_arguments", "_call", "_file", "_kept", "_name", "_result")

    def __init__(self, file: str, name: str, result: str, arguments: str) -> None:
        self._file, self._name, self._result, self._arguments = file, name, result, arguments
        self._call: Callable[..., Any] = self._first_call
        self._kept: object = None

    def __call__(self, *arguments: float) -> Any:  # Any: a number, or None, as the letter says
        """Call the function."""
        return self._call(*arguments)

    def _first_call(self, *arguments: float) -> Any:
        address, self._kept = _loaded(self._file, self._name, self._result, self._arguments)
        prototype = ctypes.CFUNCTYPE(_TYPES[self._result], *(_TYPES[letter] for letter in self._arguments))
        self._call = prototype(address)
        return self._call(*arguments)


def _loaded(file: str, name: str, result: str, arguments: str) -> tuple[int, object]:
    """Return the address of a kernel and what keeps it there: from the cache, else compiled and kept in it."""
    place = _folder() / f"{file}.{name}"
    try:
        return _read(place)
    except (OSError, ObjectError, ValueError) as missing:
        _log.debug("kernel %s.%s is compiled: %s", file, name, missing)
    compiler = import_module(".compiled.compiler", __package__)
    is_kept = _can_keep(place.parent)
    function = compiler.compile_kernel(file, name, result, arguments, is_kept=is_kept)
    if is_kept:
        try:
            _write(place, *compiler.object_file(function))
        except OSError as refusal:
            _log.debug("kernel %s.%s is not kept: %s", file, name, refusal)
    return function.address, function


def _can_keep(folder: Path) -> bool:
    """Return whether object files are what `object_file.py` reads, and the folder is there to be written to."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _read(place: Path) -> tuple[int, Code]:
    """Return the kernel of this file.

    Raises:
        OSError, ObjectError, ValueError: There is none, or it cannot be used.
    """
    content = place.read_bytes()
    check, body = content[:_CHECK], content[_CHECK:]
    if hashlib.sha256(body).digest() != check:
        raise ObjectError(f"{place} is damaged; it is written anew")
    name, _, code = body.partition(b"\0")
    loaded = Code(code)
    return loaded.address_of(name.decode()), loaded


def _write(place: Path, name: str, code: bytes) -> None:
    body = name.encode() + b"\0" + code
    handle, path = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(hashlib.sha256(body).digest() + body)
    os.replace(path, place)


@cache
def _folder() -> Path:
    """Return where the kernels of this source and this processor are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {sys.version_info[:2]}\n".encode())
    digest.update(_processor())
    for path in [*sorted(_SOURCE.glob("compiled/*.py")), *(_SOURCE / name for name in _CONSTANTS)]:
        digest.update(path.read_bytes())
    return Path(base) / __name__.partition(".")[0] / f"kernels-{digest.hexdigest()[:20]}"


def _processor() -> bytes:
    """Return the lines that say which processor this is and what it can do."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(1 << 14).split(b"\n\n")[0].splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(line for line in lines if line.startswith((b"vendor_id", b"model name", b"flags", b"Features")))
