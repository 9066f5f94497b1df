"""Arrays handed to XLA without a copy where memory allows it, and its results as arrays that belong to the caller."""

import ctypes
from collections.abc import Sequence
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np

from ..random import Key
from ..tensor import Array
from .translation_table import Operand, words_of

__all__ = ["Owned", "Shared", "to_jax"]

# XLA takes over an array without a copy where it starts at a multiple of so many bytes.
_ALIGNMENT = 64
# A copy of so many bytes costs about what taking the memory over does: 5 us, measured.
_LARGE = 1 << 16


def to_jax(array: Operand | Key) -> Operand:
    """Return the array as XLA takes it: shared where it is aligned, else copied; keys as words."""
    if isinstance(array, Key):
        return words_of(array)
    if not isinstance(array, np.ndarray):
        return array
    return jnp.from_dlpack(array) if _can_share(array) else jnp.asarray(array)


class Shared:
    """Arrays as JAX takes them; what is handed over again and again (weights) is shared once, its memory seen anew.

    An array that shares memory follows what is written there, so weights may change in place between runs, though not
    during one: a run ends when its results are there. Arrays that cannot be shared go as they are, and JAX copies them.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Array], jax.Array]] = {}

    def __call__(self, array: Operand | Key) -> Operand:
        """Return the array as JAX takes it."""
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        if isinstance(array, Key):
            return words_of(array)
        if not isinstance(array, np.ndarray) or not _can_share(array):
            return array
        key, taken = id(array), jnp.from_dlpack(array)
        self._known[key] = ref(array, lambda _: self._known.pop(key, None)), taken
        return taken


def _can_share(array: Array) -> bool:
    if array.ctypes.data % _ALIGNMENT or not array.flags.c_contiguous or not array.flags.writeable:
        return False
    return bool(array.size) and array.dtype.kind in "biufc" and array.dtype.itemsize > 1


class Owned:
    """Results as arrays that belong to the caller.

    A large result is not copied: its memory becomes the array's. XLA may give two results the same memory, or that of
    an argument; those are copied.
    """

    def __init__(self, arguments: Sequence[object]) -> None:
        self._taken = {x.ctypes.data for x in arguments if isinstance(x, np.ndarray)}

    def __call__(self, y: jax.Array) -> Array:
        """Return the result as an array."""
        if y.nbytes < _LARGE or y.dtype.kind not in "iufc":
            return np.array(y)
        y = jax.block_until_ready(y)
        (device,) = y.devices()
        address = y.unsafe_buffer_pointer()
        if device.platform != "cpu" or address in self._taken:
            return np.array(y)
        self._taken.add(address)
        memory = (ctypes.c_char * y.nbytes).from_address(address)
        memory.owner = y  # the array's base keeps it
        return np.frombuffer(memory, y.dtype).reshape(y.shape)
