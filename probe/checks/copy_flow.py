"""How values flow through a call of a copy: which function made each tensor, of what, inside of which module."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .function_mode import FunctionMode
from .loss_tape import tensors_in
from .model_probe import ModelProbe, NotAnswered, removed_after

#: Calls that are noted, and bytes of the tensors that they make. Our choice: a flow that is longer tells nothing.
_MOST_CALLS, _MOST_BYTES = 1500, 1 << 26


@dataclass(frozen=True, slots=True)
class FlowCall:
    """One call of a function.

    Args:
        name: Of the function.
        arguments, options: Its arguments.
        given: The tensors among them.
        made: The tensors that it returned, or changed in place.
        module: Name of the innermost module that has called it; empty for the model itself.
        module_inputs: The tensors that this module was given.
    """

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    given: tuple[torch.Tensor, ...]
    made: tuple[torch.Tensor, ...]
    module: str
    module_inputs: tuple[torch.Tensor, ...]


class Flow:
    """The calls of functions in one call of a copy, in order."""

    def __init__(self, calls: list[FlowCall]) -> None:
        self.calls = calls
        self._makers: dict[int, list[int]] = {}
        for number, call in enumerate(calls):
            for tensor in call.made:
                self._makers.setdefault(id(tensor), []).append(number)

    def maker_of(self, tensor: torch.Tensor) -> FlowCall | None:
        """Return the last call that made the tensor or changed it; None for an input, a parameter or a constant."""
        numbers = self._makers.get(id(tensor))
        return self.calls[numbers[-1]] if numbers else None

    def calls_behind(self, tensor: torch.Tensor) -> list[FlowCall]:
        """Return all calls that have a part in the values of the tensor, with or without gradients, in order."""
        waiting, seen = [tensor], set[int]()
        known = {id(tensor)}
        while waiting:
            for number in self._makers.get(id(waiting.pop()), ()):
                if number not in seen:
                    seen.add(number)
                    fresh = [one for one in self.calls[number].given if id(one) not in known]
                    known.update(map(id, fresh))
                    waiting += fresh
        return [self.calls[number] for number in sorted(seen)]

    def depends(self, tensor: torch.Tensor, other: torch.Tensor) -> bool:
        """Return whether the values of the tensor were made of those of the other one."""
        return any(one is other for call in self.calls_behind(tensor) for one in call.given)


def flow_of(probe: ModelProbe, changes: Mapping[str, torch.Tensor]) -> Flow | None:
    """Return the flow of a call of the copy with gradients; None where it is too long, or no mode can be used.

    Args:
        changes: Tensors that replace inputs of the call.

    Raises:
        NotAnswered: The model refuses them, or the time for checks is used up.
    """
    tape = _FlowTape()
    if not tape.begin():
        return None
    try:
        with removed_after(list(_followed(probe, tape.running))):
            probe.answers(changes, with_gradients=True)
    finally:
        tape.leave()
    return Flow(tape.calls) if tape.is_whole else None


def flow_or_none(probe: ModelProbe, changes: Mapping[str, torch.Tensor] | None = None) -> Flow | None:
    """Return the flow, or None also where the model does not answer."""
    try:
        return flow_of(probe, changes or {})
    except NotAnswered:
        return None


def _followed(probe: ModelProbe, running: list[tuple[str, tuple[torch.Tensor, ...]]]) -> Iterator[Any]:
    """Add to the modules that run, innermost last; yield the handles of the hooks that do so."""

    def begin(name: str, _module: Any, arguments: Any, keywords: Any) -> None:
        running.append((name, tuple(tensors_in([*arguments, *keywords.values()]))))

    def end(*_: Any) -> None:
        running.pop()

    for name, module in probe.named_modules():
        yield module.register_forward_pre_hook(partial(begin, name), with_kwargs=True)
        yield module.register_forward_hook(end, always_call=True)


class _FlowTape(FunctionMode):
    """Notes calls while it is on the stack, and keeps what they make, so that no other tensor gets its id."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.is_whole, self._bytes = list[FlowCall](), True, 0
        self.running: list[tuple[str, tuple[torch.Tensor, ...]]] = [("", ())]

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note the function, if it made a tensor or may have changed one."""
        if not self.is_whole:
            return
        given = tuple(tensors_in([*args, *options.values()]))
        made = tuple(tensors_in(result)) if result is not None else given[:1]
        if not made:
            return
        self._bytes += sum(one.numel() * one.element_size() for one in made)
        self.is_whole = len(self.calls) < _MOST_CALLS and self._bytes < _MOST_BYTES
        self.calls.append(
            FlowCall(getattr(function, "__name__", ""), args, dict(options), given, made, *self.running[-1])
        )
