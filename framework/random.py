"""Random numbers from explicit keys: the same key gives the same numbers, on any machine, in any order.

A key is 128 bits. Drawing hands it to Philox, a counter-based generator, which is a pure function of key and counter.
Keys are made from other keys by hashing, so no state is shared: `split` for siblings, `fold_in` for numbered children
(steps, layers, ranks).

Reference:
    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from .context import CAPTURE

__all__ = ["Key", "fold_in", "get_state", "next_key", "set_seed", "set_state", "split"]


@dataclass(frozen=True, slots=True, init=False)
class Key:
    """What random numbers are drawn with.

    Args:
        seed: Any integer from 0 up.
    """

    #: A kind of keys that defines this classmethod intercepts the primitives that draw with it, as tensors can.
    __fallback__: ClassVar[Callable[..., object] | None] = None

    bits: int

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"a seed must be 0 or more, got {seed}")
        object.__setattr__(self, "bits", _hash(b"seed", seed))

    @staticmethod
    def from_bits(bits: int) -> "Key":
        """Return the key of these 128 bits: one that was stored."""
        key = object.__new__(Key)
        object.__setattr__(key, "bits", bits)
        return key

    def child(self, word: bytes, *numbers: int) -> "Key":
        """Return the key that these name among the children of this one."""
        return Key.from_bits(_hash(word, self.bits, *numbers))

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator that starts at the beginning of this key's numbers."""
        return np.random.Generator(np.random.Philox(key=self.bits))


def _hash(word: bytes, *numbers: int) -> int:
    state = blake2b(word, digest_size=16)
    for number in numbers:
        width = (number.bit_length() + 7) // 8
        state.update(width.to_bytes(4, "little") + number.to_bytes(width, "little"))
    return int.from_bytes(state.digest(), "little")


from_bits = Key.from_bits


def fold_in(key: Key, number: int) -> Key:
    """Return the child of that number."""
    return key.child(b"fold", number)


def split(key: Key, parts: int = 2) -> tuple[Key, ...]:
    """Return keys that are independent of each other and of `key`."""
    return tuple(key.child(b"split", part) for part in range(parts))


class _Sequence:
    """The key of the running context and how many were taken from it."""

    __slots__ = ("key", "taken")

    def __init__(self, key: Key, taken: int = 0) -> None:
        self.key = key
        self.taken = taken


_SEQUENCE: ContextVar[_Sequence] = ContextVar("sequence")
# What stands between code and its keys: `vmap` makes one for each sample of them, `recompute` gives the same again.
BETWEEN: "ContextVar[Callable[[Callable[[], Key]], Key] | None]" = ContextVar("between", default=None)
_DEFAULT = _Sequence(Key(0))


def set_seed(seed: int) -> None:
    """Restart `next_key` from this seed."""
    _SEQUENCE.set(_Sequence(Key(seed)))


def next_key() -> Key:
    """Return the next key of the running context, for those who were given none (initialization, dropout)."""
    between = BETWEEN.get()
    return _taken() if between is None else between(_taken)


def _taken() -> Key:
    capture = CAPTURE.get()
    if capture is not None:
        traced: Key = capture.next_key()
        return traced
    sequence = _SEQUENCE.get(_DEFAULT)
    sequence.taken += 1
    return fold_in(sequence.key, sequence.taken - 1)


def draw_key(source: Callable[[], Key]) -> Key:
    """Return the key that `source` gives; in a compiled function it is asked at every call of that."""
    capture = CAPTURE.get()
    asked = source if capture is None else partial(capture.draw_key, source)
    between = BETWEEN.get()
    return asked() if between is None else between(asked)


def get_state() -> tuple[int, int]:
    """Return where `next_key` stands in the running context: the bits of its key, and how many keys were taken."""
    sequence = _SEQUENCE.get(_DEFAULT)
    return sequence.key.bits, sequence.taken


def set_state(state: tuple[int, int]) -> None:
    """Continue `next_key` from a state that `get_state` returned."""
    bits, taken = state
    _SEQUENCE.set(_Sequence(from_bits(bits), taken))
