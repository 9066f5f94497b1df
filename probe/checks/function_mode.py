"""A mode on torch's stack that sees the functions a program calls, and can be taken off again at any time."""

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

#: Modules whose functions may be replaced by ones that report their calls.
_WATCHED: Final = ("torch.nn.functional", "torch.autograd", "torch.nn.utils.clip_grad")


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped where it is not installed
    """Lies on torch's stack between `begin` and `leave`; a subclass sees each function and calls it as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._is_on_stack = False

    def leave(self) -> bool:
        """Take the mode off torch's stack, if it lies on top; return whether it is off."""
        if self._is_on_stack and torch.overrides._get_current_function_mode() is self:
            self.__exit__(None, None, None)
            self._is_on_stack = False
        return not self._is_on_stack

    def begin(self) -> bool:
        """Put the mode onto the stack; return False if one of others is there, or torch compiles for one more."""
        if not self._is_on_stack:
            top = torch.overrides._get_current_function_mode()
            if not isinstance(top, FunctionMode | None) or _has_compiled():
                return False
            self.__enter__()
            self._is_on_stack = True
        return True


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function itself where it was replaced by one that reports its calls."""
    replaced = getattr(function, "__module__", "") in _WATCHED
    return getattr(function, "__wrapped__", function) if replaced else function


def _has_compiled() -> bool:
    """Return whether torch has compiled anything: it would compile once more for a mode on the stack."""
    counted = sys.modules.get("torch._dynamo.utils")
    return bool(counted is not None and counted.counters.get("frames"))
