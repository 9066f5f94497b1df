"""What torch has no hooks for: the start of a backward pass, and the loss scaler.

Both are seen by replacing functions of torch while anybody listens; the last listener that leaves puts them back.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import Any, Protocol

import torch

from .recompute import in_backward


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


_listeners: list[TrainingListener] = []
#: Those of them that want to hear of backward passes at present.
_awake: list[TrainingListener] = []
_originals: list[tuple[Any, str, Any, Any]] = []


def add_listener(listener: TrainingListener) -> None:
    """Nothing; the listener hears what happens from now on."""
    _listeners.append(listener)
    _awake.append(listener)
    if len(_listeners) == 1:
        _replace(torch.autograd, "backward", _watched_backward)
        _replace(torch.amp.GradScaler, "scale", _watched_scale)
        _replace(torch.amp.GradScaler, "step", _watched_step)


def remove_listener(listener: TrainingListener) -> None:
    """Nothing; after the last one torch is as it was, unless others have replaced the same functions meanwhile."""
    wake_listener(listener, False)
    if listener in _listeners:
        _listeners.remove(listener)
    if _listeners:
        return
    while _originals:
        owner, name, original, ours = _originals.pop()
        if getattr(owner, name) is ours:
            setattr(owner, name, original)


def wake_listener(listener: TrainingListener, is_awake: bool) -> None:
    """Nothing; the listener hears of backward passes from now on, or does not."""
    if listener in _awake:
        _awake.remove(listener)
    if is_awake and listener in _listeners:
        _awake.append(listener)


def _replace(owner: Any, name: str, build: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    ours = wraps(original)(build(original))
    _originals.append((owner, name, original, ours))
    setattr(owner, name, ours)


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
