"""Functions with a derivative of one's own.

A call becomes one application of the primitive `custom_call`, whose attribute holds the functions: so a function with
its own rule is recorded, mapped and captured as any primitive is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

import numpy as np

from ..context import CAPTURE, is_recording, no_grad
from ..errors import GradientError
from ..ops.create import zeros_like
from ..primitive import Primitive, Results
from ..specs import Spec
from ..tape_node import Gradient
from ..tensor import Array, Tensor, wrap
from ..vmap import batching, vmap
from ..vmap.batched import Application

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The halves of a custom derivative: the arguments to `(output, residuals)`, and residuals and cotangent to gradients.
Forward: TypeAlias = Callable[..., tuple[object, object]]
Backward: TypeAlias = Callable[[Any, Any], "Tensor | Sequence[Tensor | None] | None"]


class TreeStructure:
    """The shape of a container: `filled` makes the value from its tensors.

    Attributes:
        leaves: Number of tensors.
    """

    __slots__ = ("_build", "leaves")

    def __init__(self, leaves: int, build: Callable[[Sequence[Any]], object]) -> None:
        self.leaves, self._build = leaves, build

    @classmethod
    def nothing(cls) -> "TreeStructure":
        """Return the structure of a value without tensors."""
        return cls(0, lambda _: None)

    def filled(self, tensors: Sequence[object]) -> Any:
        """Return the value with these tensors."""
        return self._build(tensors)


def flatten_tree(value: object) -> tuple[list[Tensor], TreeStructure]:
    """Return the tensors of a value of tuples, lists and dicts, in order, and how they are nested."""
    if isinstance(value, Tensor):
        return [value], TreeStructure(1, lambda tensors: tensors[0])
    if isinstance(value, dict):
        leaves, inner = flatten_tree(list(value.values()))
        keys = list(value)
        return leaves, TreeStructure(inner.leaves, lambda tensors: dict(zip(keys, inner.filled(tensors), strict=True)))
    if isinstance(value, tuple | list):
        parts = [flatten_tree(part) for part in value]
        leaves = [leaf for found, _ in parts for leaf in found]
        below = [structure for _, structure in parts]
        return leaves, TreeStructure(len(leaves), lambda tensors: _sequence(type(value), below, tensors))
    return [], TreeStructure(0, lambda _: value)


def _sequence(kind: type, below: Sequence[TreeStructure], tensors: Sequence[object]) -> object:
    parts, start = [], 0
    for structure in below:
        parts.append(structure.filled(tensors[start : start + structure.leaves]))
        start += structure.leaves
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


class _CustomCall:
    """The functions of one call, on flat tuples of tensors.

    Args:
        forward: Tensors to `(outputs, residuals)`.
        backward: `(residuals, cotangents of the outputs)` to a gradient, or None, for each tensor.
    """

    def __init__(
        self, forward: Callable[..., tuple[object, object]], backward: Callable[[Any, Any], Iterable[Tensor | None]]
    ) -> None:
        self._forward, self._backward = forward, backward
        self.outputs = self.residuals = TreeStructure.nothing()

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors of the outputs, then those of the residuals."""
        output, residuals = self._forward(*tensors)
        leaves, self.outputs = flatten_tree(output)
        more, self.residuals = flatten_tree(residuals)
        return [*leaves, *more]

    def backward(self, tensors: Sequence[Tensor], g: Gradient, out: Results | list[Tensor]) -> list[Tensor | None]:
        """Return a gradient for each tensor."""
        if is_recording() or CAPTURE.get() is not None:
            out = self.forward(tensors)  # so that the residuals are functions of the tensors
        made = list(out) if isinstance(out, tuple | list) else [out]
        count = self.outputs.leaves
        given = list(g)[:count] if isinstance(g, tuple | list) else [g]
        cotangents = [zeros_like(y) if c is None else c for y, c in zip(made, given, strict=False)]
        found = list(self.gradients(made[count:], cotangents))
        _check_gradients(found, tensors)
        return found

    def gradients(self, residuals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        """Return what the author's function makes of flat residuals and cotangents."""
        return tuple(self._backward(self.residuals.filled(residuals), self.outputs.filled(cotangents)))


def _check_gradients(found: Sequence[object], tensors: Sequence[Tensor]) -> None:
    if len(found) != len(tensors):
        raise GradientError(f"a custom backward expects to return {len(tensors)} gradients, got {len(found)}")
    for i, (g, x) in enumerate(zip(found, tensors, strict=True)):
        if g is not None and (not isinstance(g, Tensor) or g.shape != x.shape):
            came = f"shape {g.shape}" if isinstance(g, Tensor) else type(g).__name__
            raise GradientError(
                f"a custom backward expects to return for tensor {i} a gradient of shape {x.shape} or None, got {came}"
            )


def _evaluate(*arrays: Array, call: _CustomCall) -> tuple[Array, ...]:
    with no_grad():
        return tuple(y.numpy() for y in call.forward([wrap(x) for x in arrays]))


def _infer(*specs: Spec, call: _CustomCall) -> tuple[Spec, ...]:
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
def _mapped(application: Application) -> Tensor:
    """Return the call of the mapped functions."""
    call: _CustomCall = application.attributes["call"]

    def forward(*tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        made = vmap(lambda *samples: tuple(call.forward(samples)), randomness="different")(*tensors)
        return made[: call.outputs.leaves], made[call.outputs.leaves :]

    def backward(residuals: Sequence[Tensor], cotangents: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        return vmap(call.gradients, randomness="different")(residuals, cotangents)

    return application.primitive(*application.every(), call=_CustomCall(forward, backward))


class custom_vjp(Generic[_P, _R]):  # noqa: N801 (a decorator, written in lower case as functions are)
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

    def __init__(self, fn: Callable[_P, _R]) -> None:
        self._fn = fn
        self._halves: tuple[Forward, Backward] | None = None
        update_wrapper(self, fn)

    def defvjp(self, forward: Forward, backward: Backward) -> None:
        """Give the function this derivative.

        Args:
            forward: Takes the function's arguments, returns `(output, residuals)`.
            backward: Takes the residuals and the cotangent of the output, returns a gradient or None for each
                positional argument.
        """
        self._halves = forward, backward

    def __call__(self, *arguments: _P.args, **options: _P.kwargs) -> _R:
        """Return what the function returns."""
        if self._halves is None:
            raise GradientError(f"'{self._fn.__name__}' is a custom_vjp without its halves; give them by defvjp()")
        forward, backward = self._halves
        return call_with_rule(self._fn, forward, backward, arguments, options)


def call_with_rule(
    fn: Callable[..., _R],
    forward: Forward,
    backward: Backward,
    arguments: tuple[object, ...],
    options: Mapping[str, object],
) -> _R:
    """Return what `fn` returns for these arguments, recorded as one operation whose derivative is made of the two
    halves."""
    places = [i for i, x in enumerate(arguments) if isinstance(x, Tensor)]
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    watched = is_recording() and any(x.requires_grad for x in tensors)
    if not watched and CAPTURE.get() is None and all(x.__fallback__ is None for x in tensors):
        return fn(*arguments, **options)

    def whole(*given: Tensor) -> tuple[object, object]:
        full = list(arguments)
        for i, x in zip(places, given, strict=True):
            full[i] = x
        return forward(*full, **options)

    def gradients(residuals: object, cotangent: object) -> list[Tensor | None]:
        found = backward(residuals, cotangent)
        every = found if isinstance(found, tuple | list) else (found,)
        if len(every) != len(arguments):
            raise GradientError(
                f"the backward of '{getattr(fn, '__name__', type(fn).__name__)}' expects to return a gradient or None "
                f"for each of its {len(arguments)} positional arguments, got {len(every)}"
            )
        return [every[i] for i in places]

    call = _CustomCall(whole, gradients)
    made = _custom.several(*tensors, call=call)
    output: _R = call.outputs.filled(list(made)[: call.outputs.leaves])
    return output
