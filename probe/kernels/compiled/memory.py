"""What compiled code is made of: memory by its address or of the stack, and numbers decoded from it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..raw_memory import BFLOAT16, Halves, Singles

#: LLVM may reorder sums; NaN and infinities are preserved.
FAST: Final = {"reassoc", "contract", "nsz"}
#: What LLVM may assume of compared numbers: both are finite, and zeros of either sign are equal.
_FINITE: Final = ("nnan", "ninf", "nsz")

#: Compiles a function that raises nothing, allocates nothing and needs nothing of Python.
compiled: Final = partial(njit, nogil=True, error_model="numpy")


@intrinsic
def pointer(_context: object, address: object) -> object:  # Any: numba's own compiler interface is untyped
    """Convert the address to a pointer."""

    def generate(_context: object, builder: Any, _signature: object, arguments: Sequence[object]) -> object:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


def _chosen(comparison: str) -> Any:  # Any: as above
    """Choose, of two floats without NaN, the one that compares so with the other; only so do loops become vectors."""

    def choose(_context: object, first: Any, other: object) -> object:
        def generate(_context: object, builder: Any, _signature: object, arguments: Sequence[object]) -> object:
            compared = builder.fcmp_ordered(comparison, *arguments, flags=_FINITE)
            return builder.select(compared, *arguments, flags=_FINITE)

        return first(first, other), generate

    return intrinsic(choose)


smaller, larger = _chosen("<"), _chosen(">")


def stack(size_bytes: int) -> Callable[[], int]:
    """Return a function that returns so many bytes of its caller's stack, which hold anything at first."""

    def reserve(_context: object) -> object:
        def generate(_context: object, builder: Any, _signature: object, _arguments: object) -> object:
            with builder.goto_entry_block():
                room = builder.alloca(ir.ArrayType(ir.IntType(64), -(-size_bytes // 8)))
                room.align = 64
            return builder.bitcast(room, cgutils.voidptr_t)

        return types.voidptr(), generate

    return intrinsic(reserve)  # type: ignore[no-any-return]


@compiled()
def decode(raw: Halves, code: int, out: Singles) -> None:
    """Decode 16-bit floats to float32: bfloat16 is the upper half, float16 is scaled by 2^112 into range."""
    bits = out.view(np.uint32)
    if code == BFLOAT16:
        for i in range(raw.size):
            bits[i] = np.uint32(raw[i]) << np.uint32(16)
        return
    for i in range(raw.size):
        bits[i] = np.uint32(raw[i] & np.uint16(0x7FFF)) << np.uint32(13)
    for i in range(raw.size):
        out[i] *= np.float32(2.0**112)
    for i in range(raw.size):
        half = np.uint32(raw[i])
        special = np.uint32(0x7F800000) if (half & np.uint32(0x7C00)) == np.uint32(0x7C00) else np.uint32(0)
        bits[i] |= special | ((half & np.uint32(0x8000)) << np.uint32(16))
