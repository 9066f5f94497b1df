"""Functions of derivatives made from functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`.

Reverse mode runs the function on fresh aliases of its arguments and goes back from the result to them. Inside another
transform the aliases stay connected to the originals and the backward pass is recorded, so `grad(grad(f))` is the
second derivative.

Forward mode needs no rules besides those of reverse mode: the vjp of a function is linear in its cotangent, so its own
vjp, taken at any cotangent, is the jvp.

Reference:
    Townsend 2017, "A new trick for calculating Jacobian vector products".
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ..context import CAPTURE, DEPTH, quiet, recording
from ..dtype import is_inexact
from ..errors import GradientError
from ..ops.create import zeros_like
from ..ops.layout import identity
from ..primitive import Results
from ..tape import gradients
from ..tape_node import unrecorded_alias
from ..tensor import Parameter, Tensor

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


@contextmanager
def inside_transform() -> Iterator[bool]:
    """Open a block in which a function is run to be differentiated; yields whether another transform is around it."""
    nested = DEPTH.get() > 0
    token = DEPTH.set(DEPTH.get() + 1)
    try:
        with recording(), quiet():
            yield nested
    finally:
        DEPTH.reset(token)


def alias(x: Tensor, nested: bool) -> Tensor:
    """Return a tensor of the same values to differentiate by; connected to `x` where an outer transform may ask."""
    if not isinstance(x, Tensor):
        raise GradientError(
            f"a gradient can be taken by a Tensor, got {type(x).__name__}; wrap the value in Tensor(...)"
        )
    if not is_inexact(x.dtype):
        raise GradientError(f"a gradient can be taken by a floating-point tensor, got {x.dtype}; cast it first")
    is_weight_met_by_capture = x.__fallback__ is None and CAPTURE.get() is not None
    fresh = identity(x) if is_weight_met_by_capture or (nested and x.requires_grad) else unrecorded_alias(x)
    fresh.requires_grad = True
    return fresh


def filled(gradient: Tensor | None, like: Tensor) -> Tensor:
    """Return the gradient, zeros where there is none."""
    return zeros_like(like) if gradient is None else gradient


def _loss_of(output: Any, has_aux: bool) -> Tensor:
    """Return the scalar to differentiate, from what the function returned."""
    loss = output[0] if has_aux else output
    if not isinstance(loss, Tensor):
        hint = "; with further outputs pass has_aux=True" if isinstance(loss, tuple) else ""
        raise GradientError(f"the function must return a scalar Tensor, got {type(loss).__name__}{hint}")
    return loss


def _argument(inputs: Sequence[_T], position: int) -> _T:
    if not -len(inputs) <= position < len(inputs):
        raise GradientError(f"grad_position {position} names no argument: the function was called with {len(inputs)}")
    return inputs[position]


class Differentiated(NamedTuple):
    """What a function made by `grad` or `value_and_grad` does, for captures that differentiate graphs instead.

    Attributes:
        made: That function; one that only wraps it carries this record, too, but is another.
        fn: What is differentiated; then the arguments of `value_and_grad`.
        has_value: Whether the value is returned, too.
    """

    made: Callable[..., object]
    fn: Callable[..., object]
    grad_position: int | Sequence[int] | None
    weights: Sequence[Parameter] | Parameter | None
    has_aux: bool
    has_value: bool


def value_and_grad(
    fn: Callable[_P, _R],
    grad_position: int | Sequence[int] | None = 0,
    weights: Sequence[Parameter] | Parameter | None = None,
    has_aux: bool = False,
) -> Callable[_P, tuple[_R, Any]]:
    """Return a function that returns `(what fn returns, gradients)`.

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
    def differentiated(*arguments: _P.args, **options: _P.kwargs) -> tuple[_R, Any]:
        with inside_transform() as nested:
            inputs: list[Any] = list(arguments)
            for position in positions:
                inputs[position] = alias(_argument(inputs, position), nested)
            output = fn(*inputs, **options)
        targets = [*(inputs[position] for position in positions), *parameters]
        loss = _loss_of(output, has_aux)
        found: Sequence[Tensor | None] = (None,) * len(targets)
        if loss.requires_grad:
            found = gradients(loss, targets, create_graph=nested)
        complete = tuple(filled(g, target) for g, target in zip(found, targets, strict=True))
        of_inputs: Any = complete[: len(positions)]
        of_weights: Any = complete[len(positions) :]
        if isinstance(grad_position, int):
            of_inputs = of_inputs[0]
        if isinstance(weights, Tensor):
            of_weights = of_weights[0]
        if not nested:
            output = detached(output)
        if weights is None:
            return output, of_inputs
        return output, of_weights if grad_position is None else (of_inputs, of_weights)

    vars(differentiated)["differentiates"] = Differentiated(differentiated, fn, grad_position, weights, has_aux, True)
    return differentiated


def detached(output: Any) -> Any:
    """Return the outputs without the graph, which is used up."""
    if isinstance(output, Tensor):
        return output.detach()
    if type(output) in (tuple, list):
        return type(output)(detached(part) for part in output)
    return output


def grad(
    fn: Callable[_P, Any],
    grad_position: int | Sequence[int] | None = 0,
    weights: Sequence[Parameter] | Parameter | None = None,
    has_aux: bool = False,
) -> Callable[_P, Any]:
    """Return a function that returns the gradients alone, or `(gradients, others)` with `has_aux`; see
    `value_and_grad`."""
    both = value_and_grad(fn, grad_position, weights, has_aux)

    @wraps(fn)
    def differentiated(*arguments: _P.args, **options: _P.kwargs) -> Any:
        output, found = both(*arguments, **options)
        return (found, tuple(output[1:])) if has_aux else found

    vars(differentiated)["differentiates"] = Differentiated(differentiated, fn, grad_position, weights, has_aux, False)
    return differentiated


def vjp(fn: Callable[..., _R], *primals: Tensor) -> tuple[_R, Callable[[Results], tuple[Tensor, ...]]]:
    """Return `fn(*primals)` and the function that pulls a cotangent of it back to the primals, as often as one likes.

    Args:
        fn: Returns a tensor, or a tuple of tensors, whose cotangents are then a tuple too.
        primals: Where it is evaluated.
    """
    with inside_transform() as nested:
        aliases = [alias(x, nested) for x in primals]
        output = fn(*aliases)
    outputs: tuple[Any, ...] = output if isinstance(output, tuple) else (output,)

    def pull_back(cotangent: Results) -> tuple[Tensor, ...]:
        weights: Any = cotangent if isinstance(output, tuple) else (cotangent,)
        if len(weights) != len(outputs):
            raise GradientError(f"the pull-back of {len(outputs)} outputs expects a cotangent each, got {len(weights)}")
        ways = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        found: Sequence[Tensor | None] = (None,) * len(aliases)
        if ways:
            roots, seeds = [y for y, _ in ways], [w for _, w in ways]
            found = gradients(roots, aliases, seeds, create_graph=DEPTH.get() > 0, retain_graph=True)
        return tuple(filled(g, x) for g, x in zip(found, primals, strict=True))

    return output if nested else detached(output), pull_back


def jvp(fn: Callable[..., _R], primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[_R, _R]:
    """Return `fn(*primals)` and its derivative along the tangents.

    Args:
        fn: Returns a tensor, or a tuple of tensors; so is the derivative.
        primals: Where it is evaluated.
        tangents: One of the shape of each primal.
    """
    output, push = linearize(fn, *primals)
    return output, push(*tangents)


def linearize(fn: Callable[..., _R], *primals: Tensor) -> tuple[_R, Callable[..., _R]]:
    """Return `fn(*primals)` and its derivative there, a linear function of tangents, to be called as often as one
    likes."""
    with inside_transform() as nested:
        aliases = [alias(x, nested) for x in primals]
        output = fn(*aliases)
        outputs: tuple[Any, ...] = output if isinstance(output, tuple) else (output,)
        roots = [y for y in outputs if y.requires_grad]
        probes = [zeros_like(y) for y in roots]
        for probe in probes:
            probe.requires_grad = True
        pulled: Sequence[Tensor | None] = (None,) * len(aliases)
        if roots:
            pulled = gradients(roots, aliases, probes, create_graph=True)

    def push(*tangents: Tensor) -> Any:
        _check_tangents(primals, tangents)
        ways = [(g, t) for g, t in zip(pulled, tangents, strict=True) if g is not None and g.requires_grad]
        found: Sequence[Tensor | None] = (None,) * len(probes)
        if ways:
            found = gradients(
                [g for g, _ in ways], probes, [t for _, t in ways], create_graph=DEPTH.get() > 0, retain_graph=True
            )
        rest = iter(found)
        pushed = tuple(filled(next(rest) if y.requires_grad else None, y) for y in outputs)
        return pushed if isinstance(output, tuple) else pushed[0]

    return output if nested else detached(output), push


def _check_tangents(primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> None:
    if len(primals) != len(tangents):
        raise GradientError(f"a derivative by {len(primals)} primals expects a tangent each, got {len(tangents)}")
    for i, (x, t) in enumerate(zip(primals, tangents, strict=True)):
        if not isinstance(t, Tensor) or t.shape != x.shape or not is_inexact(t.dtype):
            came = f"{t.shape} {t.dtype}" if isinstance(t, Tensor) else type(t).__name__
            raise GradientError(f"tangent {i} expects a floating-point Tensor of shape {x.shape}, got {came}")
