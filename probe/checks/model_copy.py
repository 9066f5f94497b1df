"""A deep copy of a model, in evaluation mode and without hooks, whose calls change nothing of the model."""

import copy
from collections.abc import Iterable, Iterator
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
        if _calls_one_of(originals, vars(module).get("forward"), _DEPTH):
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


def _calls_one_of(modules: set[int], value: Any, depth: int) -> bool:
    """Return whether a function holds one of these modules, which a copy of the function would hold as well.

    Methods and partial functions are copied with what they are bound to, plain functions are not.
    """
    if not depth:
        return False
    if isinstance(value, MethodType):
        return _calls_one_of(modules, value.__func__, depth - 1)
    if isinstance(value, partial):
        return _calls_one_of(modules, value.func, depth - 1)
    if not isinstance(value, FunctionType):
        return False
    held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    held += [value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__]
    for cell in value.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not yet bound
            continue
    for one in held:
        owner = getattr(one, "__self__", one)
        inner = one.func if isinstance(one, partial) else one
        if id(owner) in modules or id(getattr(inner, "__self__", None)) in modules:
            return True
        if _calls_one_of(modules, one, depth - 1):
            return True
    return False


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
