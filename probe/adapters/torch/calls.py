"""Calls of torch's losses and of its gradient clipping, seen by replacing these functions while anybody listens.

A replacement keeps the globals and the signature of its original, so that `torch.jit.script` still finds the source,
and steps aside while torch.compile traces. The last listener that leaves puts the originals back. Names that a script
imported before (`from torch.nn.functional import cross_entropy`) are not replaced; modules such as
`nn.CrossEntropyLoss` look their function up at every call and are seen.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, Protocol

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad

from .replaced import Replaced

#: The losses that are told, in torch's own words.
LOSSES: Final = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "poisson_nll_loss", "ctc_loss",
)  # fmt: skip


class CallListener(Protocol):
    """What is called in the process, whichever model it belongs to."""

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """A loss function is called with these."""

    def loss_returned(self, result: Any, options: dict[str, Any]) -> None:
        """It has returned."""

    def gradients_clipped(self, parameters: Any, limit: float, norm: Any) -> None:
        """Gradients are about to be shortened to the limit, their norm being this; None when they are cut by value."""


def _told(tell: Callable[..., None], tell_result: Callable[..., None] | None = None) -> Callable[[Any], Any]:
    """What builds a function that tells of its calls around its original."""

    def around(original: Any) -> Any:
        is_compiling, awake = torch.compiler.is_compiling, _awake

        def call(*arguments: Any, **options: Any) -> Any:
            if is_compiling() or not awake:
                return original(*arguments, **options)
            tell(*arguments, **options)
            result = original(*arguments, **options)
            if tell_result is not None:
                tell_result(result, options)
            return result

        return FunctionType(call.__code__, original.__globals__, original.__name__, None, call.__closure__)

    return around


def _tell_loss(name: str) -> Callable[..., None]:
    def tell(*arguments: Any, **options: Any) -> None:
        values = list(arguments[:2])
        given = values[0] if values else options.get("input")
        target = values[1] if len(values) > 1 else options.get("target")
        for listener in tuple(_awake):
            listener.loss_called(name, given, target, options)

    return tell


def _tell_result(result: Any, options: dict[str, Any]) -> None:
    for listener in tuple(_awake):
        listener.loss_returned(result, options)


def _tell_norm(parameters: Any, max_norm: Any, total_norm: Any, *_: Any, **__: Any) -> None:
    for listener in tuple(_awake):
        listener.gradients_clipped(parameters, float(max_norm), total_norm)


def _tell_value(parameters: Any, clip_value: Any, *_: Any, **__: Any) -> None:
    if isinstance(parameters, torch.Tensor | list | tuple):  # a generator can be read only once
        for listener in tuple(_awake):
            listener.gradients_clipped(parameters, float(clip_value), None)


def _replace() -> None:
    for name in LOSSES:
        if hasattr(functional, name):
            _replaced.put(functional, name, _told(_tell_loss(name), _tell_result))
    if hasattr(clip_grad, "_clip_grads_with_norm_"):  # inside clip_grad_norm_, whoever imported that
        _replaced.put(clip_grad, "_clip_grads_with_norm_", _told(_tell_norm))
    for place in (torch.nn.utils, clip_grad):
        _replaced.put(place, "clip_grad_value_", _told(_tell_value))


_replaced: Replaced[CallListener] = Replaced(_replace)
_awake = _replaced.awake
add_call_listener, remove_call_listener, wake_call_listener = _replaced.add, _replaced.remove, _replaced.wake
