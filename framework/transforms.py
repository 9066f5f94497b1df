"""Transformations of functions: from a function of tensors to the function of its gradients.

A transform runs the function on fresh aliases of its arguments and goes back from the result to them. Inside another
transform the aliases stay connected to the originals and the way back is recorded, so `grad(grad(f))` is the second
derivative.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .context import DEPTH, quiet, recording
from .errors import GradientError
from .ops.array import identity
from .tape import gradients
from .tensor import Parameter, Tensor, wrap

__all__ = ["grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]


def stop_gradient(x: Tensor) -> Tensor:
    """The same values; no gradient flows through."""
    return x.detach()


def _alias(x: Tensor, nested: bool) -> Tensor:
    """A tensor of the same values to differentiate by; connected to `x` where an outer transform may ask."""
    if not isinstance(x, Tensor):
        raise GradientError(
            f"a gradient can be taken by a Tensor, got {type(x).__name__}; wrap the value in Tensor(...)"
        )
    if nested and x.requires_grad:
        return identity(x)
    fresh = wrap(x.numpy())
    fresh._version = x._version
    fresh.requires_grad = True
    return fresh


def _filled(gradient: Tensor | None, like: Tensor) -> Tensor:
    return wrap(np.zeros(like.shape, like.dtype)) if gradient is None else gradient


def _loss_of(output: Any, has_aux: bool) -> Tensor:
    """The scalar to differentiate, from what the function returned."""
    loss = output[0] if has_aux else output
    if not isinstance(loss, Tensor):
        hint = "; with further outputs pass has_aux=True" if isinstance(loss, tuple) else ""
        raise GradientError(f"the function must return a scalar Tensor, got {type(loss).__name__}{hint}")
    return loss


def value_and_grad(
    fn: Callable[..., Any],
    grad_position: int | Sequence[int] | None = 0,
    weights: Sequence[Parameter] | Parameter | None = None,
    has_aux: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns `(what fn returns, gradients)`.

    Args:
        fn: Returns a scalar loss, or `(loss, *others)` with `has_aux`.
        grad_position: Which positional arguments to differentiate by; None for none.
        weights: Parameters to differentiate by; their `.grad` is left alone.
        has_aux: Whether `fn` returns more than the loss.

    Returns:
        Gradients are one tensor for an int position or a single Parameter, a tuple for a sequence, and
        `(gradients of inputs, gradients of weights)` for both. Where the loss does not depend on a target, zeros.
    """
    positions = (grad_position,) if isinstance(grad_position, int) else tuple(grad_position or ())
    parameters = (weights,) if isinstance(weights, Tensor) else tuple(weights or ())
    if grad_position is None and weights is None:
        raise GradientError("nothing to differentiate by: give grad_position, weights, or both")

    @wraps(fn)
    def differentiated(*arguments: Any, **options: Any) -> tuple[Any, Any]:
        nested = DEPTH.get() > 0
        token = DEPTH.set(DEPTH.get() + 1)
        try:
            with recording(), quiet():
                inputs = list(arguments)
                for position in positions:
                    inputs[position] = _alias(inputs[position], nested)
                output = fn(*inputs, **options)
        finally:
            DEPTH.reset(token)
        targets = [*(inputs[position] for position in positions), *parameters]
        loss = _loss_of(output, has_aux)
        found: Sequence[Tensor | None] = (None,) * len(targets)
        if loss.requires_grad:
            found = gradients(loss, targets, create_graph=nested)
        filled = tuple(_filled(g, target) for g, target in zip(found, targets, strict=True))
        of_inputs: Any = filled[: len(positions)]
        of_weights: Any = filled[len(positions) :]
        if isinstance(grad_position, int):
            of_inputs = of_inputs[0]
        if isinstance(weights, Tensor):
            of_weights = of_weights[0]
        if not nested:
            output = _detached(output)
        if weights is None:
            return output, of_inputs
        return output, of_weights if grad_position is None else (of_inputs, of_weights)

    return differentiated


def _detached(output: Any) -> Any:
    """The outputs without the graph, which is used up."""
    if isinstance(output, Tensor):
        return output.detach()
    if type(output) in (tuple, list):
        return type(output)(_detached(part) for part in output)
    return output


def grad(
    fn: Callable[..., Any],
    grad_position: int | Sequence[int] | None = 0,
    weights: Sequence[Parameter] | Parameter | None = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradients alone, or `(gradients, others)` with `has_aux`; see `value_and_grad`."""
    both = value_and_grad(fn, grad_position, weights, has_aux)

    @wraps(fn)
    def differentiated(*arguments: Any, **options: Any) -> Any:
        output, found = both(*arguments, **options)
        return (found, tuple(output[1:])) if has_aux else found

    return differentiated


def vjp(fn: Callable[..., Tensor], *primals: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
    """`fn(*primals)` and the function that pulls a cotangent of it back to the primals, as often as one likes."""
    nested = DEPTH.get() > 0
    token = DEPTH.set(DEPTH.get() + 1)
    try:
        with recording(), quiet():
            aliases = [_alias(x, nested) for x in primals]
            output = fn(*aliases)
    finally:
        DEPTH.reset(token)

    def pull_back(cotangent: Tensor) -> tuple[Tensor, ...]:
        if not output.requires_grad:
            return tuple(_filled(None, x) for x in primals)
        found = gradients(output, aliases, [cotangent], create_graph=DEPTH.get() > 0, retain_graph=True)
        return tuple(_filled(g, x) for g, x in zip(found, primals, strict=True))

    return output if nested else output.detach(), pull_back


def jvp(fn: Callable[..., Tensor], primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """`fn(*primals)` and its derivative along the tangents.

    The pull-back is linear in its cotangent, so the push-forward is the pull-back of the pull-back: no further rules.
    """
    with recording(), quiet():
        aliases = [_alias(x, nested=True) for x in primals]
        for alias in aliases:
            alias.requires_grad = True
        output = fn(*aliases)
        if not output.requires_grad:
            return output, _filled(None, output)
        probe = wrap(np.zeros(output.shape, output.dtype))
        probe.requires_grad = True
        pulled = gradients(output, aliases, [probe], create_graph=True)
        linear = [(g, t) for g, t in zip(pulled, tangents, strict=True) if g is not None and g.requires_grad]
        if not linear:
            return output, _filled(None, output)
        nested = DEPTH.get() > 0
        (pushed,) = gradients([g for g, _ in linear], [probe], [t for _, t in linear], create_graph=nested)
        return output if nested else output.detach(), _filled(pushed, output)
