"""Refuses what would write to the memory of a model whose tensors a copy shares."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class WritesRefused(Exception):
    """A forward was about to write to parameters."""


class WriteGuard(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped where it is not installed
    """Sees every operator inside of its block, and refuses those that write to these tensors.

    Raises:
        WritesRefused: By the operator, before it has written anything.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._places = {_place(tensor) for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator if it leaves the tensors as they are."""
        del types
        options = kwargs or {}
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[number] if number < len(args) else options.get(argument.name)
                if any(_place(each) in self._places for each in _tensors(value)):
                    raise WritesRefused(f"its forward writes to parameters, by {func}")
        return func(*args, **options)


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    values = value if isinstance(value, list | tuple) else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
