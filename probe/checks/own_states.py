"""What calls of a program's modules change beside tensors: generators of its own, and objects that count."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from .program_text.own_files import own_modules


class _Kind(NamedTuple):
    """How the state of an object is read, and how it is put back."""

    type: type
    read: Callable[[Any], Any]
    put: Callable[[Any, Any], object]


_GENERATORS: Final = (
    _Kind(torch.Generator, torch.Generator.get_state, torch.Generator.set_state),
    _Kind(random.Random, random.Random.getstate, random.Random.setstate),
    _Kind(np.random.RandomState, np.random.RandomState.get_state, np.random.RandomState.set_state),
    _Kind(np.random.Generator, lambda one: one.bit_generator.state, lambda one, state: _put(one.bit_generator, state)),
    _Kind(np.random.BitGenerator, lambda one: one.state, lambda one, state: _put(one, state)),
)
_CONTAINERS: Final = (
    _Kind(list, list.copy, lambda one, state: one.__setitem__(slice(None), state)),
    _Kind(dict, dict.copy, lambda one, state: _put_values(one, state)),
    _Kind(set, set.copy, lambda one, state: (one.intersection_update(state), one.update(state))),
    _Kind(deque, deque.copy, lambda one, state: (one.clear(), one.extend(state))),
)
_GENERATOR_TYPES: Final = tuple(kind.type for kind in _GENERATORS)
_CONTAINER_TYPES: Final = tuple(kind.type for kind in _CONTAINERS)
#: Objects inside of objects, and values of one of them, that are looked through. Our choice.
_DEPTH, _MOST = 3, 64
#: What every module keeps for torch.
_OF_TORCH: Final = frozenset(vars(torch.nn.Module()))
_NOTHING_INSIDE: Final = (torch.Tensor, torch.nn.Module, str, bytes, int, float, complex, type, ModuleType)


def own_states(modules: Iterable[torch.nn.Module]) -> list[Any]:
    """Return the objects whose state a call of these modules may change.

    They are what the modules keep, with what that keeps, and the random generators in the program's global names. What
    else a function can reach is not looked for.
    """
    own = own_modules()
    names = {module.__name__ for module in own}
    kept = [value for module in modules for name, value in vars(module).items() if name not in _OF_TORCH]
    found = {id(one): one for value in kept for one in _inside(value, names, _DEPTH)}
    values = [value for module in own for value in list(vars(module).values())]
    drawing = (one for value in values for one in _inside(value, names, _DEPTH) if isinstance(one, _GENERATOR_TYPES))
    return list((found | {id(one): one for one in drawing}).values())


@contextmanager
def same_states(objects: Iterable[Any]) -> Iterator[None]:
    """Put the objects back, after the block, into the states that they have now."""
    kept = [(one, kind.read(one), kind.put) for one in objects for kind in (_kind_of(one),)]
    try:
        yield
    finally:
        for one, state, put in kept:
            put(one, state)


def _kind_of(value: Any) -> _Kind:
    return next((kind for kind in (*_GENERATORS, *_CONTAINERS) if isinstance(value, kind.type)), _OBJECT)


def _inside(value: Any, own: set[str], depth: int) -> Iterator[Any]:
    """Yield the value, and what is inside of it, as far as it has a state that can be put back.

    Of objects of libraries only generators count: their own threads may write to the rest at the same time.

    Args:
        own: Names of the program's own modules.
    """
    if isinstance(value, _GENERATOR_TYPES):
        yield value
        return
    if not depth or isinstance(value, _NOTHING_INSIDE):
        return
    is_container = isinstance(value, _CONTAINER_TYPES)
    if is_container or isinstance(value, tuple | frozenset):
        inside = list(value.values() if isinstance(value, dict) else value)
    else:
        inside = list(_attributes(value).values())
    if len(inside) > _MOST:
        return
    if is_container or type(value).__module__ in own:
        yield value
    elif not isinstance(value, tuple | frozenset):
        depth = 1
    for one in inside:
        yield from _inside(one, own, depth - 1)


def _attributes(value: Any) -> dict[str, Any]:
    found = getattr(value, "__dict__", None)
    return found if type(found) is dict else {}


def _put_values(values: dict[Any, Any], state: dict[Any, Any]) -> None:
    """Put back what differs, name by name: another thread may be reading the rest."""
    for name in [name for name in values if name not in state]:
        del values[name]
    for name, value in state.items():
        if name not in values or values[name] is not value:
            values[name] = value


_OBJECT: Final = _Kind(
    object, lambda one: _attributes(one).copy(), lambda one, state: _put_values(_attributes(one), state)
)


def _put(generator: np.random.BitGenerator, state: Any) -> None:
    generator.state = state
