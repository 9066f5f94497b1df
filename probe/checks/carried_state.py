"""Is a recurrent cell that a step calls again and again given a state, or zeros each time? Read from its calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from .check_result import CheckResult, broken
from .loss_tape import tensors_in
from .model_call import outputs_of

CARRIED: Final = "a_state_is_carried"
_CLAIM: Final = "a cell that is called again and again in one step is given a state that is not zero"
#: Calls between two backward passes from which on they are a loop over time, and axes of a state, rows or pictures:
#: one of three axes may hold a whole sequence. Our choice.
_LOOP, _STATES = 4, (2, 4)


@dataclass(slots=True)
class _Calls:
    """Calls of one module since the last backward pass: those whose state was zero, and the sum of its last input."""

    blank: int = 0
    carried: int = 0
    first: float | None = None
    has_varied: bool = False

    @property
    def is_never_given_one(self) -> bool:
        """Whether it was called in a loop with other inputs and no state."""
        return self.blank >= _LOOP and not self.carried and self.has_varied


class CarriedStates:
    """The calls of cells in one step.

    A cell takes an input and a state, and answers with a tensor like the state; torch's own cells take zeros where no
    state is given. The first of its calls begins with zeros, the others go on from what the call before has answered.
    """

    def __init__(self) -> None:
        self._calls: dict[int, _Calls] = {}
        self._found: dict[int, int] = {}

    def called(self, module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Any, output: Any) -> None:
        """Take a call with gradients."""
        given = list(tensors_in([arguments, keywords]))
        answers = {tensor.shape for tensor in outputs_of(output) if tensor.requires_grad}
        is_cell = isinstance(module, torch.nn.RNNCellBase)
        if not given or not given[0].is_floating_point() or given[0].dim() not in _STATES:
            return
        states = [one for one in given[1:] if one.shape in answers and one.dim() in _STATES and one.is_floating_point()]
        if not states and not (is_cell and len(given) == 1):
            return
        calls = self._calls.setdefault(id(module), _Calls())
        if calls.carried:
            return
        if any(one.requires_grad or bool(one.any()) for one in states):
            calls.carried += 1
            return
        calls.blank += 1
        total = float(given[0].detach().double().sum())
        calls.has_varied |= calls.first is not None and total != calls.first
        calls.first = total

    def pass_begins(self) -> None:
        """Judge the calls so far: those behind a backward pass are of another micro-batch."""
        for number, calls in self._calls.items():
            if calls.is_never_given_one:
                self._found[number] = max(calls.blank, self._found.get(number, 0))
            elif calls.carried:
                self._found[number] = 0  # it is given one elsewhere
        self._calls.clear()

    def results(self, modules: Mapping[str, torch.nn.Module]) -> Iterator[tuple[str, CheckResult]]:
        """Yield site and result of each cell that was never given a state."""
        told: Iterable[tuple[str, int]] = ((site, self._found.get(id(module), 0)) for site, module in modules.items())
        for site, count in told:
            if count:
                words = (
                    f"{site or 'the network'} ({type(modules[site]).__name__}) was called {count} times in one step, "
                    f"with other inputs and a state of zeros each time"
                )
                yield site, broken(CARRIED, _CLAIM, words, subject=site, calls=float(count))
