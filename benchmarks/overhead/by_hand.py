"""Hooks that an engineer would write by hand, with torch's own reductions, gathered once a step.

Four statistics are what such hooks usually record: norm, mean, minimum, maximum. Nine are those of mindscope, and still
they go blind after one NaN.
"""

from collections.abc import Callable
from typing import Any

import torch

from .tool import Attached

_Row = Callable[[Any], Any]


def _four(tensor: Any) -> Any:
    """Norm, mean, minimum, maximum."""
    x = tensor.detach()
    low, high = torch.aminmax(x)
    return torch.stack([torch.linalg.vector_norm(x), x.mean(), low, high])


def _nine(tensor: Any) -> Any:
    """Norm, mean, deviation, minimum, maximum, zeros, NaN, infinities of either sign."""
    x = tensor.detach()
    deviation, mean = torch.std_mean(x, correction=0)
    low, high = torch.aminmax(x)
    counts = [(x == 0).sum(), x.isnan().sum(), x.isposinf().sum(), x.isneginf().sum()]
    return torch.stack([torch.linalg.vector_norm(x), mean, deviation, low, high, *counts])


def attach_four(model: Any, optimizer: Any, row: str, _folder: str) -> Attached:
    """Hooks that record norm, mean, minimum and maximum."""
    return _attach(_four, model, optimizer, row)


def attach_nine(model: Any, optimizer: Any, row: str, _folder: str) -> Attached:
    """Hooks that record what mindscope does."""
    return _attach(_nine, model, optimizer, row)


def _attach(statistics: _Row, model: Any, optimizer: Any, row: str) -> Attached:
    hooks = _Hooks(statistics, list(model.parameters()), optimizer, 10 if row == "every 10th" else 1)
    optimizer.register_step_pre_hook(hooks.before_step)
    optimizer.register_step_post_hook(hooks.after_step)
    if row != "gradients":
        hooks.sees_all = True
        for module in model.modules():
            module.register_forward_hook(hooks.after_forward)
    return Attached()


class _Hooks:
    """All hooks of one training; the rows of the last steps are kept in memory."""

    def __init__(self, statistics: _Row, parameters: list[Any], optimizer: Any, every: int) -> None:
        self._statistics, self._parameters, self._optimizer, self._every = statistics, parameters, optimizer, every
        self.sees_all = False
        self._step = 0
        self._rows: list[Any] = []
        self._before: list[Any] = []
        self._kept: list[list[list[float]]] = []

    def after_forward(self, _module: Any, _inputs: Any, output: Any) -> None:
        """Sees an output, and its gradient once it comes by."""
        if self._step % self._every == 0:
            self._see(output)
            output.register_hook(self._see)

    def before_step(self, *_: Any) -> None:
        """Sees the gradients, and copies the weights for the update."""
        if self._step % self._every == 0:
            for parameter in self._parameters:
                self._see(parameter.grad)
            if self.sees_all:
                self._before = [parameter.detach().clone() for parameter in self._parameters]

    def after_step(self, *_: Any) -> None:
        """Sees weights, state and updates, and gathers the rows."""
        if self._step % self._every == 0:
            if self.sees_all:
                self._see_all()
            self._kept.append(torch.stack(self._rows).tolist())
            self._rows.clear()
            del self._kept[:-64]
        self._step += 1

    def _see_all(self) -> None:
        states = (self._optimizer.state[parameter] for parameter in self._parameters)
        slots = [slot for state in states for slot in state.values() if slot.dim()]
        changes = [now.detach() - old for now, old in zip(self._parameters, self._before, strict=True)]
        for tensor in (*self._parameters, *slots, *changes):
            self._see(tensor)

    def _see(self, tensor: Any) -> None:
        self._rows.append(self._statistics(tensor))
