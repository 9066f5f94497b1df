"""Cotangents: the gradients that flow back through a graph, their types, and the operations that only they need.

    of a tensor                     a tensor like it; none for integers and words
    of a tuple                      the tuple of the cotangents of its parts
    of a function                   its environment: the cotangents of its free variables, in their order

Which closure a `switch` chose is known when the graph runs, so an environment's parts are too: its type is opaque. An
environment may be None or shorter than the free variables; what is missing is zero.
"""

from itertools import zip_longest
from typing import Any

import numpy as np

from ..dtype import Dtype, is_inexact
from ..shape import Shape, Spec
from ..tensor import Array
from .control import Control
from .types import Abstract, FunctionType, OpaqueType, TupleType

__all__ = ["ENVIRONMENT", "NOTHING", "carries_gradient", "cotangent_type"]

#: The type of the cotangent of a function.
ENVIRONMENT = OpaqueType("environment")
#: The type of the cotangent of what has none; its value is None.
NOTHING = OpaqueType("NoneType")


def cotangent_type(type: Abstract) -> Abstract:
    """The type of the cotangent of a value of that type."""
    if isinstance(type, Spec):
        return Spec(type.shape, type.dtype) if is_inexact(type.dtype) else NOTHING
    if isinstance(type, TupleType):
        return TupleType(tuple(cotangent_type(part) for part in type.elements))
    return ENVIRONMENT if isinstance(type, FunctionType) or type == ENVIRONMENT else NOTHING


def carries_gradient(type: Abstract) -> bool:
    """Whether gradients can flow back through values of that type."""
    if isinstance(type, Spec):
        return is_inexact(type.dtype)
    if isinstance(type, TupleType):
        return any(carries_gradient(part) for part in type.elements)
    return isinstance(type, FunctionType) or type == ENVIRONMENT


def _zeros_like(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_zeros_like(part) for part in x)
    if isinstance(x, np.ndarray | np.generic | float | complex):
        array = np.asarray(x)
        return np.zeros(array.shape, array.dtype) if is_inexact(array.dtype) else None
    return None


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(_add(x, y) for x, y in zip_longest(a, b))
    return np.add(a, b)


def _part_of(environment: tuple[Any, ...] | None, like: Any, *, index: int) -> Any:
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
