"""A mode on torch's stack that sees the functions a program calls, and can be taken off again at any time."""

import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any, Final

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from ..guard import Guard
from ..warning_places import CallingPlaces, skipped_by_warnings

#: Modules whose functions may be replaced by ones that report their calls.
_WATCHED: Final = ("torch.nn.functional", "torch.autograd", "torch.nn.utils.clip_grad")
#: Inside of a transformation of `torch.func`, such as vmap, tensors and parameters only stand for others: they are not
#: to be read, nor kept.
is_transformed: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped where it is not installed
    """Lies on torch's stack between `begin` and `leave`, and calls each function as it is.

    A subclass looks at the calls, in `before` and `after`; of those inside of a function transform it only hears.

    Args:
        guard: Takes what they raise, after which the mode looks no more; without one it is raised, which is for calls
            of our own.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__()
        self._guard, self._is_on_stack, self._has_failed = guard, False, False
        self._is_leaving = False
        self._places = CallingPlaces(torch.overrides.handle_torch_function.__code__)

    def before(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Look at a function that is about to be called; what is returned is given to `after`, unless it is None."""
        del args, options
        return function

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Look at what the function has returned."""

    def stop(self) -> None:
        """Look at nothing any more; `leave` takes the mode off torch's stack."""

    def transformed(self) -> None:
        """Note that a function is called inside of a function transform."""

    @skipped_by_warnings
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function as it is, with the looks around it."""
        del types
        options, plain, noted, warns = kwargs or {}, func, None, False
        try:
            plain = plain_function(func)
            warns = may_warn(plain)
            if is_transformed():
                self.transformed()
            elif not self._has_failed and (self._guard is None or not self._guard.is_off):
                noted = self.before(plain, args, options)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._failed(error)
        result = self._places.call(plain, args, options) if warns else plain(*args, **options)
        if noted is not None:
            try:
                self.after(plain, args, options, noted, result)
            except BaseException as error:  # noqa: BLE001  as above
                self._failed(error)
        return result

    def _failed(self, error: BaseException) -> None:
        if self._guard is None:
            raise error
        self._has_failed = True
        self._guard.check_failed(error)

    def leave(self) -> bool:
        """Take the mode off torch's stack, if only modes lie on it that are to leave; return whether it is off.

        One that has to wait leaves with the last of ours above it.
        """
        self._is_leaving = self._is_on_stack
        while isinstance(top := torch.overrides._get_current_function_mode(), FunctionMode) and top._is_leaving:
            top.__exit__(None, None, None)
            top._is_on_stack = top._is_leaving = False
            top._places.clear()
        return not self._is_on_stack

    def begin(self) -> bool:
        """Put the mode onto the stack; return False if one of others is there, or torch compiles for one more.

        Torch's own mode for the device that a program makes its tensors on stays below all others by itself.
        """
        if not self._is_on_stack:
            top = torch.overrides._get_current_function_mode()
            if not isinstance(top, FunctionMode | DeviceContext | None) or _has_compiled():
                return False
            self.__enter__()
            self._is_on_stack = True
        self._is_leaving = False
        return True


def may_warn(function: Callable[..., Any]) -> bool:
    """Return whether torch's function may warn of how it is called: it is one of C, or of `torch.nn.functional`."""
    return not isinstance(function, FunctionType) or function.__module__ == functional.__name__


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function itself where it was replaced: by one that reports its calls, or by one of the program.

    Torch's own functions hand over to a mode what their name stands for. Where a program has put a function of its own
    in the place of one of torch, that has been called already, and must not be once more.
    """
    replaced = getattr(function, "__module__", "") in _WATCHED
    plain = getattr(function, "__wrapped__", function) if replaced else function
    if not isinstance(plain, FunctionType) or str(plain.__module__).startswith("torch"):
        return plain
    return _handed_over(plain)


def _handed_over(replacement: FunctionType) -> Callable[..., Any]:
    """Return the function of torch that has handed its call over to a mode, as it is in torch's text."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not torch.overrides.handle_torch_function.__code__:
        frame = frame.f_back
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code is replacement.__code__ or caller.f_code.co_freevars:
        return replacement
    return FunctionType(caller.f_code, caller.f_globals)


def _has_compiled() -> bool:
    """Return whether torch has compiled anything: it would compile once more for a mode on the stack."""
    counted = sys.modules.get("torch._dynamo.utils")
    return bool(counted is not None and counted.counters.get("frames"))
