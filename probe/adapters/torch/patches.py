"""What torch has no hooks for: the start of a backward pass, and the loss scaler.

Both are seen by replacing functions of torch while anybody listens; the last listener that leaves puts them back.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

import torch

from .recompute import in_backward
from .replaced import Replaced


class TrainingListener(Protocol):
    """What happens in the process, whichever model it belongs to."""

    def backward_begins(self, roots: Any) -> None:
        """`torch.autograd.backward` is about to start from these tensors."""

    def backward_ends(self) -> None:
        """That backward pass is over."""

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """What that backward pass runs inside of, if anything."""

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """A loss scaler has multiplied a loss."""

    def scaler_steps(self, optimizer: Any) -> None:
        """A loss scaler is about to step the optimizer, or to find that it must not."""

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """It has stepped the optimizer, or not; reading its scale may wait."""


def _watched_backward(original: Any) -> Any:
    def backward(tensors: Any, *arguments: Any, **options: Any) -> Any:
        if not _awake or in_backward():  # a checkpointed function goes back through what it has computed again
            return original(tensors, *arguments, **options)
        around: list[AbstractContextManager[Any]] = []
        for listener in tuple(_awake):
            listener.backward_begins(tensors)
            around += listener.around_backward(tensors)
        if around:
            with ExitStack() as stack:
                for context in around:
                    stack.enter_context(context)
                result = original(tensors, *arguments, **options)
        else:
            result = original(tensors, *arguments, **options)
        for listener in tuple(_awake):
            listener.backward_ends()
        return result

    return backward


def _watched_scale(original: Any) -> Any:
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        for listener in tuple(_listeners):
            listener.loss_scaled(outputs, scaled, self)
        return scaled

    return scale


def _watched_step(original: Any) -> Any:
    def step(self: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        for listener in tuple(_listeners):
            listener.scaler_steps(optimizer)
        result = original(self, optimizer, *arguments, **options)
        for listener in tuple(_listeners):
            listener.scaler_stepped(optimizer, self.get_scale)
        return result

    return step


def _replace() -> None:
    _replaced.put(torch.autograd, "backward", _watched_backward)
    _replaced.put(torch.amp.GradScaler, "scale", _watched_scale)
    _replaced.put(torch.amp.GradScaler, "step", _watched_step)


_replaced: Replaced[TrainingListener] = Replaced(_replace)
_listeners, _awake = _replaced.listeners, _replaced.awake
add_listener, remove_listener, wake_listener = _replaced.add, _replaced.remove, _replaced.wake
