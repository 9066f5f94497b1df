"""Optimizers that step parameters without gradients, while a network has gradients that no optimizer uses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer

from ....garbage import objects_of
from ...checks.check_result import CheckResult
from .torch_networks import parameter_ids
from .torch_reached import told_of

#: Steps of an optimizer, none of them with a gradient, at which networks are kept, and at which they are compared.
_KEPT, _COMPARED = 10, 30
#: Elements of a tensor that are compared.
_MOST = 256


class IdleOptimizers:
    """Follows optimizers of which no parameter has ever had a gradient.

    Most are placeholders. One that was made before the layers of its network were replaced holds the old ones: then the
    new ones have gradients, no optimizer, and the values that they began with.
    """

    def __init__(self) -> None:
        self._steps: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._kept: WeakKeyDictionary[Optimizer, dict[int, _Sample]] = WeakKeyDictionary()

    def stepped(self, optimizer: Optimizer, held: Sequence[torch.Tensor]) -> Iterator[CheckResult]:
        """Yield what a step without gradients tells.

        Args:
            held: The parameters of the optimizer.
        """
        count = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if count == _KEPT and any(parameter.dim() > 1 for parameter in held):
            self._kept[optimizer] = {number: _Sample(one) for number, one in _left_alone().items()}
        elif count == _COMPARED and optimizer in self._kept:
            before, now = self._kept.pop(optimizer), _left_alone()
            resting = {number: one for number, one in now.items() if number in before and before[number].rests(one)}
            kind = type(optimizer).__name__
            for result in told_of(resting, ()):
                words = f"{result.counterexample}; {kind} has made {count} steps, and none of its {len(held)} tensors "
                yield replace(result, counterexample=f"{words}has had a gradient")


class _Sample:
    """The first values of a parameter and of its gradient."""

    def __init__(self, parameter: torch.Tensor) -> None:
        self._parameter, self._values, self._gradient = parameter, _first(parameter), _first(parameter.grad)

    def rests(self, parameter: torch.Tensor) -> bool:
        """Return whether it has the same values, and another gradient."""
        is_same = parameter is self._parameter and torch.equal(_first(parameter), self._values)
        return is_same and not torch.equal(_first(parameter.grad), self._gradient)


def _first(tensor: torch.Tensor | None) -> torch.Tensor:
    return torch.empty(0, device="cpu") if tensor is None else tensor.detach().reshape(-1)[:_MOST].clone()


def _left_alone() -> dict[int, torch.Tensor]:
    """Return the parameters of all networks of the process that have gradients and no optimizer, by id."""
    objects = objects_of(torch.nn.Module, Optimizer)
    held = set[int]().union(*(parameter_ids(one) for one in objects if isinstance(one, Optimizer)))
    owned = (vars(one).get("_parameters") or {} for one in objects if isinstance(one, torch.nn.Module))
    parameters = chain.from_iterable(each.values() for each in owned)
    return {id(one): one for one in parameters if one is not None and id(one) not in held and one.grad is not None}
