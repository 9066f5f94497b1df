"""A deep copy of a model, in evaluation mode and without hooks, whose calls change nothing of the model."""

import copy
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import torch

from ..aside import checking
from ..guard import is_ours
from .kept_objects import is_copied

#: Bytes of buffers that the copy of a large model may have, which shares its parameters. Our choice.
_MOST_BUFFERS: Final = 1 << 24
#: Elements of a collection that is searched for tensors.
_MOST_KEPT: Final = 1000
#: Functions inside of functions that are looked through.
_DEPTH: Final = 4
_PLAIN: Final = (
    torch.Tensor, torch.nn.Module, str, bytes, int, float, complex, bool, type(None), list, tuple, dict, set, frozenset,
    FunctionType, MethodType, BuiltinFunctionType, type, partial,
)  # fmt: skip


class NotCopied(Exception):
    """The model has no copy that could be called in its place."""


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the tensors' elements."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def copy_of(model: torch.nn.Module, *, shares_parameters: bool) -> torch.nn.Module:
    """Return a deep copy in evaluation mode; objects that are neither tensors nor modules are shared.

    Raises:
        NotCopied: It has too many buffers, refuses to be copied, or a function in the place of a module's `forward`
            calls the original.
    """
    size = bytes_of(model.buffers())
    if shares_parameters and size > _MOST_BUFFERS:
        raise NotCopied(f"the model's buffers have {size >> 20} MiB; more than {_MOST_BUFFERS >> 20} are not copied")
    originals = {id(module) for module in model.modules()}
    for name, module in model.named_modules():
        if _reaches(_plain_function(vars(module).get("forward")), originals, _DEPTH):
            raise NotCopied(f"{name or 'the model'} has a function for its forward that calls the original module")
    memo = _memo_of(model, shares_parameters=shares_parameters)
    try:
        with checking(), torch.no_grad():
            made = copy.deepcopy(model, memo)
    except Exception as error:
        if is_ours(error):
            raise
        raise NotCopied(f"the model cannot be copied: {type(error).__name__}: {error}") from error
    for module in made.modules():
        module.training = False
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            _keep_torchs_own(getattr(module, name, None))
    return made


def _memo_of(model: torch.nn.Module, *, shares_parameters: bool) -> dict[int, Any]:
    """Return by id what takes the place of which object in a copy: the same one if both have it."""
    memo: dict[int, Any] = {}
    if shares_parameters:
        memo = {id(one): torch.nn.Parameter(one.detach(), one.requires_grad) for one in model.parameters()}
    for module in model.modules():
        for value in vars(module).values():
            is_plain = isinstance(value, _PLAIN) or is_copied(value)
            if not is_plain or (isinstance(value, dict | list) and len(value) > _MOST_KEPT):
                memo[id(value)] = value
            memo.update({id(tensor): tensor.detach().clone() for tensor in _kept_results(value)})
    return memo


def _plain_function(value: Any) -> Any:
    """Return the function inside of methods and partial functions, which are copied with what they are bound to."""
    while isinstance(value, MethodType | partial):
        value = value.__func__ if isinstance(value, MethodType) else value.func
    return value


def _reaches(value: Any, modules: set[int], depth: int) -> bool:
    """Return whether this is one of the modules, or calls one of them that a copy of it would call as well."""
    if id(value) in modules:
        return True
    return depth > 0 and any(_reaches(one, modules, depth - 1) for one in _held_by(value))


def _held_by(value: Any) -> Iterator[Any]:
    """Yield what a function is bound to, its defaults, what its closure holds, and what its global names are."""
    if isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, FunctionType):
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from (value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__)
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # not yet bound
                yield cell.cell_contents


def _kept_results(value: object) -> Iterator[torch.Tensor]:
    """Yield tensors with a graph that a module keeps from its last call, such as a balance loss: none can be copied."""
    if isinstance(value, torch.Tensor):
        if value.grad_fn is not None:
            yield value
    elif isinstance(value, list | tuple) and len(value) <= _MOST_KEPT:
        yield from chain.from_iterable(map(_kept_results, value))
    elif isinstance(value, dict) and len(value) <= _MOST_KEPT:
        yield from chain.from_iterable(map(_kept_results, value.values()))


def _keep_torchs_own(hooks: Any) -> None:
    """Remove all hooks but those of torch, which make a weight before each forward."""
    for number, hook in list((hooks or {}).items()):
        if not type(hook).__module__.startswith("torch.nn.utils"):
            del hooks[number]
