"""The table of translations: a primitive's name and the function of JAX arrays that computes it.

What has no translation runs on the host, in the middle of the compiled function: right, but slow, and said once.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..dtype import Number
from ..errors import DataDependentShape, EngineError
from ..primitive import Primitive
from ..random import Key, from_bits
from ..registration import entering
from ..specs import Spec
from ..tensor import Array

__all__ = ["TRANSLATIONS", "KeyWords", "Operand", "Result", "apply", "on_host", "translation", "words_of"]

# Every translation takes the operands and attributes of its own primitive.
Translation: TypeAlias = Callable[..., "Result"]

TRANSLATIONS: dict[str, Translation] = {}

# An index known now may be a mask; as a traced array it may not.
_TAKE_NUMPY = ("getitem", "put")

_told: set[str] = set()
_WORD = 1 << 32


class KeyWords(NamedTuple):
    """A random key as four numbers of 32 bits, lowest first."""

    words: "jax.Array | Array"


#: What a translation takes: a tensor's array, a Python number or a key.
Operand: TypeAlias = jax.Array | Array | Number | complex | KeyWords
Result: TypeAlias = jax.Array | tuple[jax.Array, ...]


def words_of(key: Key) -> KeyWords:
    """Return the key as XLA sees it."""
    return KeyWords(np.array([(key.bits >> shift) % _WORD for shift in (0, 32, 64, 96)], np.uint32))


def key_of(words: "jax.Array | Array") -> Key:
    """Return the key of four numbers."""
    return from_bits(sum(int(word) << shift for word, shift in zip(np.asarray(words), (0, 32, 64, 96), strict=True)))


def translation(*names: str) -> Callable[[Translation], Translation]:
    """Return a decorator: the function of JAX arrays and the primitive's attributes computes the primitives of these
    names."""
    return entering(TRANSLATIONS, names, "a translation")


def apply(primitive: Primitive, inputs: tuple[Operand, ...], attributes: Mapping[str, object]) -> Result:
    """Return what a primitive gives for JAX arrays, numbers and keys; shapes and dtypes are those it infers."""
    specs = primitive.infer(*(_spec(x) for x in inputs), **attributes)
    function = TRANSLATIONS.get(primitive.name)
    if function is None:
        return on_host(primitive, inputs, attributes, specs)
    if primitive.name not in _TAKE_NUMPY:
        inputs = tuple(jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs)
    result = function(*inputs, **attributes)
    if not isinstance(specs, tuple):
        return _fitted(primitive, result, specs)
    return tuple(_fitted(primitive, y, spec) for y, spec in zip(result, specs, strict=True))


def _spec(x: Operand) -> Spec | Key:
    if isinstance(x, bool):
        return Spec((), np.dtype(bool), weak=True)
    if isinstance(x, int):
        return Spec((), np.dtype(np.int64), weak=True)
    if isinstance(x, float):
        return Spec((), np.dtype(np.float32), weak=True)
    if isinstance(x, complex):
        return Spec((), np.dtype(np.complex64), weak=True)
    return Key(0) if isinstance(x, KeyWords) else Spec(tuple(x.shape), np.dtype(x.dtype))


def _fitted(primitive: Primitive, y: jax.Array, spec: Spec) -> jax.Array:
    y = jnp.asarray(y)
    if y.shape != spec.shape:
        raise EngineError(f"the translation of '{primitive.name}' to XLA gave shape {y.shape} instead of {spec.shape}")
    return y if y.dtype == spec.dtype else y.astype(spec.dtype)


def _shape(spec: Spec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(spec.shape, spec.dtype)


def on_host(
    primitive: Primitive,
    inputs: tuple[Operand, ...],
    attributes: Mapping[str, object],
    specs: Spec | tuple[Spec, ...] | None,
) -> Result:
    """Return the result by the primitive's own evaluation, on the host; one warning for each primitive.

    Raises:
        DataDependentShape: The shape of the result is not known before.
    """
    if specs is None:
        raise DataDependentShape(primitive.name, "a function of fixed shape")
    if primitive.name not in _told:
        _told.add(primitive.name)
        warnings.warn(
            f"'{primitive.name}' has no translation to XLA and runs on the host; register one with "
            f"@translation({primitive.name!r})",
            RuntimeWarning,
            stacklevel=3,
        )
    places = [i for i, x in enumerate(inputs) if isinstance(x, KeyWords) or hasattr(x, "shape")]

    def evaluate(*arrays: jax.Array) -> Array | tuple[Array, ...]:
        values = list(inputs)
        for i, array in zip(places, arrays, strict=True):
            values[i] = key_of(array) if isinstance(inputs[i], KeyWords) else np.asarray(array)
        with np.errstate(all="ignore"):
            found = primitive.evaluate(*values, **attributes)
        wanted = specs if isinstance(specs, tuple) else (specs,)
        made = [
            np.asarray(y, s.dtype) for y, s in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True)
        ]
        return tuple(made) if isinstance(specs, tuple) else made[0]

    shapes = jax.tree.map(_shape, specs, is_leaf=lambda s: isinstance(s, Spec))
    given = [x.words if isinstance(x, KeyWords) else x for x in (inputs[i] for i in places)]
    return jax.pure_callback(evaluate, shapes, *given)
