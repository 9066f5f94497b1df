"""The operations that only graphs have: tuples, choice between functions, the order of effects, marks of cells.

They stand in a table of their own, `CONTROL`: eager code uses Python's tuples and branches, so they need no rules of
differentiation as tensors have; the transformation of graphs (`compiler.grad`) knows each of them.
"""

from collections.abc import Callable
from typing import Any

from ..errors import EngineError, NameTaken, ShapeError
from ..ops.observe import mark
from ..random import Key, next_key
from ..shape import Spec
from ..tensor import Array
from .types import Abstract, FunctionType, OpaqueType, TupleType

__all__ = ["CONTROL", "Control", "mark"]

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
        self, name: str, evaluate: Callable[..., Any], infer: Callable[..., Abstract], *, is_effect: bool = False
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


def _host_call(*values: Any, function: Callable[..., Any], types: tuple[Abstract, ...], count: int) -> tuple[Any, ...]:
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
