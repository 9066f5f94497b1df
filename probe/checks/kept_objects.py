"""Objects of a program that a module keeps tensors in, such as a queue of keys: a copy of the module has its own."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import torch

#: Bytes of tensors, and values, that one object may have so that it is copied. Our choice.
_MOST_BYTES, _MOST_VALUES = 1 << 24, 1000
_NUMBERS: Final = (str, bytes, int, float, complex, bool, type(None), torch.device, torch.dtype)


def is_copied(value: object) -> bool:
    """Return whether this is an object that keeps nothing but plain values, and a tensor among them.

    A call may write to such tensors: of an object that is shared with a copy, it would write to those of the training.
    """
    kind = type(value)
    is_usual = (
        type(kind) is type and kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    )
    if not is_usual or hasattr(kind, "__deepcopy__") or kind.__setattr__ is not object.__setattr__:
        return False
    if isinstance(value, torch.Tensor | torch.nn.Module) or not getattr(value, "__dict__", None):
        return False
    values = list(vars(value).values())
    tensors = list(_tensors_in(values))
    if not tensors or len(values) > _MOST_VALUES or not all(map(_is_plain, values)):
        return False
    return bool(sum(one.numel() * one.element_size() for one in tensors) <= _MOST_BYTES)


def tensors_of(modules: Iterable[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """Yield the tensors of such objects that these modules keep."""
    values = chain.from_iterable(vars(module).values() for module in modules)
    for value in {id(one): one for one in values if is_copied(one)}.values():
        yield from _tensors_in(list(vars(value).values()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) is torch.Tensor and value.grad_fn is None and value.layout is torch.strided
    if isinstance(value, list | tuple):
        return len(value) <= _MOST_VALUES and all(map(_is_plain, value))
    return isinstance(value, _NUMBERS)


def _tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_in(value)
