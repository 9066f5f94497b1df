"""The operations that only graphs have: tuples, choice between functions, the order of effects, cotangents.

They stand in a table of their own, `CONTROL`: eager code uses Python's tuples and branches, so they need no rules of
differentiation as tensors have; the transformation of graphs (`compiler.grad`) knows each of them.

Cotangents are the gradients that flow back through a graph:

    of a tensor                     a tensor like it; none for integers and words
    of a tuple                      the tuple of the cotangents of its parts
    of a function                   its environment: the cotangents of its free variables, in their order

Which closure a `switch` chose is known when the graph runs, so an environment's parts are too: its type is opaque. An
environment may be None or shorter than the free variables; what is missing is zero.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ..dtype import Dtype, is_inexact
from ..errors import EngineError, NameTaken, ShapeError
from ..random import Key, next_key
from ..specs import Shape, Spec
from ..tensor import Array
from .ir_types import Abstract, FunctionType, OpaqueType, TupleType

CONTROL: "dict[str, Control]" = {}


class Control:
    """One operation of graphs.

    Args:
        name: Its key in `CONTROL`.
        evaluate: Values to a value.
        infer: Types to a type.
        is_effect: It does something besides its result: it is never removed, copied or merged with another.
    """

    __slots__ = ("evaluate", "infer", "is_effect", "name")

    def __init__(
        self, name: str, evaluate: Callable[..., object], infer: Callable[..., Abstract], *, is_effect: bool = False
    ) -> None:
        if name in CONTROL:
            raise NameTaken(f"a control operation '{name}' is registered already; give the new one another name")
        self.name = name
        self.evaluate = evaluate
        self.infer = infer
        self.is_effect = is_effect
        CONTROL[name] = self

    def __repr__(self) -> str:
        return f"Control({self.name!r})"


def _infer_getitem(whole: Abstract, *, index: int) -> Abstract:
    if not isinstance(whole, TupleType) or not 0 <= index < len(whole.elements):
        raise EngineError(f"tuple_getitem expects a tuple that has an element {index}, got {whole}")
    return whole.elements[index]


def _infer_switch(condition: Abstract, true: Abstract, false: Abstract) -> Abstract:
    if isinstance(condition, Spec) and condition.size != 1:
        raise ShapeError(
            f"a condition must be a single element, got {condition.shape}; use all() or any(), or ops.where"
        )
    if isinstance(true, FunctionType) and isinstance(false, FunctionType):
        return false if isinstance(true.result, OpaqueType) else true
    if true != false:
        raise EngineError(f"switch chooses between two values of one type, got {true} and {false}")
    return true


def _assign(target: Array, value: Array, *_: object) -> Array:
    target[...] = value
    return target


make_tuple = Control("make_tuple", lambda *parts: parts, lambda *parts: TupleType(parts))
tuple_getitem = Control("tuple_getitem", lambda whole, *, index: whole[index], _infer_getitem)

#: `switch(condition, a, b)` is a where the condition (a bool tensor of one element) holds, else b. Both are values of
#: one type; mostly functions, and the result is applied.
switch = Control("switch", lambda condition, true, false: true if condition else false, _infer_switch)

#: `depend(x, *effects)` is x, after the effects have happened.
depend = Control("depend", lambda x, *_: x, lambda x, *_: x)

#: `assign(weight, value, *effects)` overwrites the weight in place after the effects; its result is the new value.
assign = Control("assign", _assign, lambda target, *_: target, is_effect=True)

#: `next_key(*effects)` takes the next random key of the running context.
take_key = Control("next_key", lambda *_: next_key(), lambda *_: OpaqueType(Key.__name__), is_effect=True)


def _host_call(
    *values: object, function: Callable[..., Sequence[object]], types: tuple[Abstract, ...], count: int
) -> tuple[object, ...]:
    result = function(*values[:count])
    if len(result) != len(types):
        raise EngineError(f"{function!r} returned {len(result)} values inside a compiled function, not {len(types)}")
    return tuple(result)


#: `host_call(*values, *effects, function=, types=, count=)` calls a Python function with the first `count` values (its
#: arrays; keys and words as they are); it returns a tuple of arrays of those types. No gradient flows through.
host_call = Control("host_call", _host_call, lambda *_, function, types, count: TupleType(types), is_effect=True)

#: `child_key(key, word=, numbers=)` is a child of a random key.
child_key = Control(
    "child_key",
    lambda key, *, word, numbers: key.child(word, *numbers),
    lambda key, **_: OpaqueType(Key.__name__),
)


#: The type of the cotangent of a function.
ENVIRONMENT = OpaqueType("environment")
#: The type of the cotangent of what has none; its value is None.
NOTHING = OpaqueType("NoneType")


def cotangent_type(type: Abstract) -> Abstract:
    """Return the type of the cotangent of a value of that type."""
    if isinstance(type, Spec):
        return Spec(type.shape, type.dtype) if is_inexact(type.dtype) else NOTHING
    if isinstance(type, TupleType):
        return TupleType(tuple(cotangent_type(part) for part in type.elements))
    return ENVIRONMENT if isinstance(type, FunctionType) or type == ENVIRONMENT else NOTHING


def carries_gradient(type: Abstract) -> bool:
    """Return whether gradients can flow back through values of that type."""
    if isinstance(type, Spec):
        return is_inexact(type.dtype)
    if isinstance(type, TupleType):
        return any(carries_gradient(part) for part in type.elements)
    return isinstance(type, FunctionType) or type == ENVIRONMENT


#: A cotangent: an array, one for each part of a tuple or environment, or None for zero.
_Cotangent: TypeAlias = "Array | np.generic | tuple[_Cotangent, ...] | None"


def _zeros_like(x: object) -> _Cotangent:
    if isinstance(x, tuple):
        return tuple(_zeros_like(part) for part in x)
    if isinstance(x, np.ndarray | np.generic | float | complex):
        array = np.asarray(x)
        return np.zeros(array.shape, array.dtype) if is_inexact(array.dtype) else None
    return None


def _add(a: _Cotangent, b: _Cotangent) -> _Cotangent:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        assert isinstance(b, tuple)
        return tuple(_add(x, y) for x, y in zip_longest(a, b))
    assert not isinstance(b, tuple)
    total: Array | np.generic = np.add(a, b)
    return total


def _part_of(environment: tuple[_Cotangent, ...] | None, like: object, *, index: int) -> _Cotangent:
    found = environment[index] if environment is not None and index < len(environment) else None
    return _zeros_like(like) if found is None else found


def _zeros(*, shape: Shape, dtype: Dtype) -> Array:
    return np.zeros(shape, dtype)


#: `zero_cotangent(shape=, dtype=)` is a cotangent that is zero.
zero_cotangent = Control("zero_cotangent", _zeros, lambda *, shape, dtype: Spec(tuple(shape), dtype))

#: `zero_cotangent_like(x)` is a zero cotangent of x, where the shape is known only at run time.
zero_cotangent_like = Control("zero_cotangent_like", _zeros_like, cotangent_type)

#: `make_environment(...)` is the cotangent of a closure, from those of its free variables; None for one that is zero.
make_environment = Control("make_environment", lambda *parts: parts, lambda *_: ENVIRONMENT)

#: `environment_getitem(environment, x, index=)` is the cotangent of x, free variable number `index` of the closure.
environment_getitem = Control("environment_getitem", _part_of, lambda _, like, *, index: cotangent_type(like))

#: `add_cotangents(a, b)` adds two environments.
add_cotangents = Control("add_cotangents", _add, lambda a, _: a)
