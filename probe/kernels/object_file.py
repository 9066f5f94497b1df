"""Loads an object file of LLVM into memory: ELF for x86-64, whose only references are whole addresses.

Reference:
    System V Application Binary Interface, chapter 4 (object files); AMD64 supplement, section 4.4 (relocation).
"""

import ctypes
import mmap
from dataclasses import dataclass
from struct import iter_unpack, unpack_from
from typing import Final

#: The file begins so: ELF, 64 bits, little endian; its type is "relocatable", its machine x86-64.
_MAGIC: Final = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
#: Kinds and flags of sections; the place of a symbol that is nowhere, or is to be allocated; one kind of reference.
_SYMBOLS, _REFERENCES, _EMPTY = 2, 4, 8
_ALLOCATED, _UNWIND = 0x2, 0x70000001
_UNDEFINED, _COMMON = 0, 0xFFF2
_WHOLE_ADDRESS: Final = 1
#: `xor eax, eax; ret`: stands for what compiled code refers to and never calls.
_NOTHING: Final = b"\x31\xc0\xc3"
#: The only foreign functions that kernels call.
_OF_C: Final = frozenset({"memset", "memcpy", "memmove", "log", "log2", "exp", "exp2", "pow", "floor"})
#: What compiled code refers to where it would raise an exception or free an array of its own: kernels do neither.
_NEVER_CALLED: Final = (
    "numba_do_raise",
    "numba_gil_",
    "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
    "NRT_Free",
    "NRT_MemInfo_call_dtor",
    "Py",
    "_ZN08NumbaEnv",
)


class ObjectError(Exception):
    """The object file cannot be loaded here."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    size: int


class Code:
    """Functions of an object file in memory that is executable and not writable, for as long as this object lives.

    Raises:
        ObjectError: It is for another machine, or refers to what no kernel refers to.
        OSError, ValueError: The system gives no memory that may be executed.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        if content[:6] != _MAGIC or unpack_from("<HH", content, 16) != (_RELOCATABLE, _X86_64):
            raise ObjectError("not an object file for x86-64")
        self._sections = self._read_sections()
        self._symbols = self._read_symbols()
        self._places, size = self._layout()
        self._memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._fill()
        if _libc().mprotect(ctypes.c_void_p(self._start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "memory may not be executed here")

    def address_of(self, name: str) -> int:
        """Return where the function of this name lies.

        Raises:
            ObjectError: There is none.
        """
        for symbol in self._symbols:
            if symbol.name == name and symbol.section in self._places:
                return self._start + self._places[symbol.section] + symbol.value
        raise ObjectError(f"no function {name!r} in the object file")

    def _read_sections(self) -> list[_Section]:
        (table,) = unpack_from("<Q", self._content, 40)
        entry, count = unpack_from("<HH", self._content, 58)
        found = []
        for index in range(count):
            _, kind, flags, _, offset, size, link, info, alignment, _ = unpack_from(
                "<IIQQQQIIQQ", self._content, table + index * entry
            )
            found.append(_Section(kind, flags, offset, size, link, info, alignment))
        return found

    def _read_symbols(self) -> list[_Symbol]:
        table = next(section for section in self._sections if section.kind == _SYMBOLS)
        names = self._sections[table.link].offset
        found = []
        for name, _, _, section, value, size in iter_unpack("<IBBHQQ", self._bytes_of(table)):
            end = self._content.index(b"\0", names + name)
            found.append(_Symbol(self._content[names + name : end].decode(), section, value, size))
        return found

    def _bytes_of(self, section: _Section) -> bytes:
        return self._content[section.offset : section.offset + section.size]

    def _layout(self) -> tuple[dict[int, int], int]:
        """Return where each section that is needed begins, and the size of all; the first bytes do nothing."""
        end = len(_NOTHING)
        places = {}
        for index, section in enumerate(self._sections):
            if section.flags & _ALLOCATED and section.size and section.kind != _UNWIND:
                end = -(-end // section.alignment) * section.alignment
                places[index] = end
                end += section.size
        return places, end

    def _fill(self) -> None:
        self._memory[: len(_NOTHING)] = _NOTHING
        for index, place in self._places.items():
            section = self._sections[index]
            if section.kind != _EMPTY:
                self._memory[place : place + section.size] = self._bytes_of(section)
        for section in self._sections:
            if section.kind == _REFERENCES and section.info in self._places:
                self._resolve(section)

    def _resolve(self, references: _Section) -> None:
        start = self._places[references.info]
        for offset, what, addend in iter_unpack("<QQq", self._bytes_of(references)):
            if what & 0xFFFFFFFF != _WHOLE_ADDRESS:
                raise ObjectError(f"a reference of kind {what & 0xFFFFFFFF}, which is not known")
            address = self._target(self._symbols[what >> 32]) + addend
            self._memory[start + offset : start + offset + 8] = address.to_bytes(8, "little")

    def _target(self, symbol: _Symbol) -> int:
        if symbol.section in self._places:
            return self._start + self._places[symbol.section] + symbol.value
        if symbol.section not in (_UNDEFINED, _COMMON):
            raise ObjectError(f"{symbol.name} lies in a section that was not loaded")
        if symbol.name in _OF_C:
            found = ctypes.cast(getattr(_libm(), symbol.name), ctypes.c_void_p).value
            assert found is not None
            return found
        if symbol.name.startswith(_NEVER_CALLED):
            return self._start
        raise ObjectError(f"a reference to {symbol.name}, which is not known")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _libm() -> ctypes.CDLL:
    return ctypes.CDLL("libm.so.6", use_errno=True)
