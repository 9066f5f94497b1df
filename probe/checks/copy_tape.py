"""The functions that a copy of a model calls, with what they are given and what they return."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from .function_mode import FunctionMode
from .model_probe import ModelProbe, removed_after

#: Calls that are noted; a model that makes more of them makes the same ones again.
_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class Noted:
    """One call of a function.

    Args:
        name: Of the function.
        given: Its first argument.
        options: Its other arguments, by position or by name.
        result: What it returned.
        module: Name of the innermost module that has called it; empty for the model itself.
    """

    name: str
    given: torch.Tensor
    options: Mapping[int | str, Any]
    result: torch.Tensor
    module: str = ""


def noted_calls(probe: ModelProbe, names: Collection[str]) -> list[Noted]:
    """Return the calls of these functions in one call of the copy, with gradients; none where no mode can be used.

    Args:
        names: Of functions and methods whose first argument and result are tensors of floating-point numbers.

    Raises:
        NotAnswered: The time for checks is used up.
    """
    tape = _Tape(names)
    if tape.begin():
        try:
            with removed_after(list(_followed(probe, tape.running))):
                probe.answers({}, with_gradients=True)
        finally:
            tape.leave()
    return tape.noted


def _followed(probe: ModelProbe, running: list[str]) -> Iterator[Any]:
    """Add to the names of modules that run, innermost last; yield the handles of the hooks that do so."""

    def begin(name: str, *_: Any) -> None:
        running.append(name)

    def end(*_: Any) -> None:
        running.pop()

    for name, module in probe.named_modules():
        yield module.register_forward_pre_hook(partial(begin, name))
        yield module.register_forward_hook(end, always_call=True)


class _Tape(FunctionMode):
    """Notes calls while it is on the stack."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._names, self.noted, self.running = names, list[Noted](), [""]

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note the function where it is one of these."""
        name = getattr(function, "__name__", "")
        is_wanted = name in self._names and len(self.noted) < _MOST and len(args) > 0
        if is_wanted and _is_activation(args[0]) and _is_activation(result):
            others: dict[Any, Any] = dict(enumerate(args[1:], 1)) | dict(options)
            self.noted.append(Noted(name, args[0], others, result, self.running[-1]))


def _is_activation(value: Any) -> bool:
    is_a_weight = isinstance(value, torch.nn.Parameter)
    return isinstance(value, torch.Tensor) and not is_a_weight and bool(value.is_floating_point())
