"""Functions with a derivative of one's own.

A call becomes one application of the primitive `custom_call`, whose attribute holds the functions: so a function with
its own rule is recorded, mapped and captured as any primitive is.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import numpy as np

from ..context import CAPTURE, is_recording, no_grad
from ..errors import GradientError
from ..ops.create import zeros_like
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor, wrap
from ..vmap import batching, vmap
from ..vmap.rule import Application
from .structure import Structure, flattened

__all__ = ["custom_vjp"]


class _Call:
    """The functions of one call, on flat tuples of tensors.

    Args:
        forward: Tensors to `(outputs, residuals)`.
        backward: `(residuals, cotangents of the outputs)` to a gradient, or None, for each tensor.
    """

    def __init__(self, forward: Callable[..., tuple[Any, Any]], backward: Callable[..., Sequence[Any]]) -> None:
        self._forward, self._backward = forward, backward
        self.outputs = self.residuals = Structure.nothing()

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of the outputs, then those of the residuals."""
        output, residuals = self._forward(*tensors)
        leaves, self.outputs = flattened(output)
        more, self.residuals = flattened(residuals)
        return [*leaves, *more]

    def backward(self, tensors: Sequence[Tensor], g: Any, out: Any) -> list[Tensor | None]:
        """A gradient for each tensor."""
        if is_recording() or CAPTURE.get() is not None:
            out = self.forward(tensors)  # so that the residuals are functions of the tensors
        made = list(out) if isinstance(out, tuple | list) else [out]
        count = self.outputs.leaves
        given = list(g)[:count] if isinstance(g, tuple | list) else [g]
        cotangents = [zeros_like(y) if c is None else c for y, c in zip(made, given, strict=False)]
        found = list(self.gradients(made[count:], cotangents))
        _check(found, tensors)
        return found

    def gradients(self, residuals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> tuple[Any, ...]:
        """What the author's function makes of flat residuals and cotangents."""
        return tuple(self._backward(self.residuals.filled(residuals), self.outputs.filled(cotangents)))


def _check(found: list[Any], tensors: Sequence[Tensor]) -> None:
    if len(found) != len(tensors):
        raise GradientError(f"a custom backward expects to return {len(tensors)} gradients, got {len(found)}")
    for i, (g, x) in enumerate(zip(found, tensors, strict=True)):
        if g is not None and (not isinstance(g, Tensor) or g.shape != x.shape):
            came = f"shape {g.shape}" if isinstance(g, Tensor) else type(g).__name__
            raise GradientError(
                f"a custom backward expects to return for tensor {i} a gradient of shape {x.shape} or None, got {came}"
            )


def _evaluate(*arrays: Array, call: _Call) -> tuple[Array, ...]:
    with no_grad():
        return tuple(y.numpy() for y in call.forward([wrap(x) for x in arrays]))


def _infer(*specs: Spec, call: _Call) -> tuple[Spec, ...]:
    token = CAPTURE.set(None)
    try:
        with no_grad():
            made = call.forward([wrap(np.zeros(spec.shape, spec.dtype)) for spec in specs])
    finally:
        CAPTURE.reset(token)
    return tuple(Spec(y.shape, y.dtype) for y in made)


_custom: Primitive = Primitive(
    "custom_call",
    _evaluate,
    _infer,
    lambda needs, g, out, *tensors, call: call.backward(tensors, g, out),
    saves_output=True,
)


@batching("custom_call")
def _mapped(application: Application) -> Any:
    """The call of the mapped functions."""
    call: _Call = application.attributes["call"]

    def forward(*tensors: Tensor) -> Any:
        made = vmap(lambda *samples: tuple(call.forward(samples)), randomness="different")(*tensors)
        return made[: call.outputs.leaves], made[call.outputs.leaves :]

    def backward(residuals: Any, cotangents: Any) -> Any:
        return vmap(call.gradients, randomness="different")(residuals, cotangents)

    return application.primitive(*application.every(), call=_Call(forward, backward))


class custom_vjp:  # noqa: N801 (a decorator, written in lower case as functions are)
    """A function whose derivative is what its author says; decorate it, then give the two halves by `defvjp`.

    Tensors among the positional arguments are differentiated by. Tensors that the function takes from elsewhere are
    constants to it.

    Args:
        fn: Takes tensors and anything else, returns a tensor or a container of them.

    Example:
        >>> @custom_vjp
        ... def clip_gradient(x, bound):
        ...     return x
        >>> clip_gradient.defvjp(
        ...     lambda x, bound: (x, bound), lambda bound, g: (ops.clip(g, -bound, bound), None)
        ... )
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._halves: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        update_wrapper(self, fn)

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Nothing; the function now has this derivative.

        Args:
            forward: Takes the function's arguments, returns `(output, residuals)`.
            backward: Takes the residuals and the cotangent of the output, returns a gradient or None for each
                positional argument.
        """
        self._halves = forward, backward

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns."""
        if self._halves is None:
            raise GradientError(f"'{self._fn.__name__}' is a custom_vjp without its halves; give them by defvjp()")
        forward, backward = self._halves
        return call_with_rule(self._fn, forward, backward, arguments, options)


def call_with_rule(
    fn: Callable[..., Any],
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """What `fn` returns for these arguments, recorded as one operation whose derivative is made of the two halves."""
    places = [i for i, x in enumerate(arguments) if isinstance(x, Tensor)]
    tensors = [arguments[i] for i in places]
    watched = is_recording() and any(x.requires_grad for x in tensors)
    if not watched and CAPTURE.get() is None and all(x.__fallback__ is None for x in tensors):
        return fn(*arguments, **options)

    def whole(*given: Tensor) -> Any:
        full = list(arguments)
        for i, x in zip(places, given, strict=True):
            full[i] = x
        return forward(*full, **options)

    def gradients(residuals: Any, cotangent: Any) -> list[Any]:
        found = backward(residuals, cotangent)
        every = found if isinstance(found, tuple | list) else (found,)
        if len(every) != len(arguments):
            raise GradientError(
                f"the backward of '{getattr(fn, '__name__', type(fn).__name__)}' expects to return a gradient or None "
                f"for each of its {len(arguments)} positional arguments, got {len(every)}"
            )
        return [every[i] for i in places]

    call = _Call(whole, gradients)
    made = _custom.several(*tensors, call=call)
    return call.outputs.filled(list(made)[: call.outputs.leaves])
