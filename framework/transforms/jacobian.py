"""All first derivatives of a function, and all second ones: one pass for every row or column, mapped by `vmap`."""

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..errors import GradientError
from ..primitive import Results
from ..tensor import Tensor, wrap
from ..vmap import vmap
from .autodiff import linearize, vjp

__all__ = ["hessian", "jacfwd", "jacrev"]

_R = TypeVar("_R")

_Positions = int | Sequence[int]


def _units(x: Tensor) -> Tensor:
    """Return the tensors of one 1 among zeros, `(elements, *shape)`."""
    count = prod(x.shape)
    return wrap(np.eye(count, dtype=x.dtype).reshape(count, *x.shape))


def _at(fn: Callable[..., _R], arguments: tuple[object, ...], positions: tuple[int, ...]) -> Callable[..., _R]:
    """Return the function of the chosen arguments alone."""

    def chosen(*varied: Tensor) -> _R:
        full = list(arguments)
        for position, x in zip(positions, varied, strict=True):
            full[position] = x
        return fn(*full)

    return chosen


def _positions(grad_position: _Positions, arguments: tuple[object, ...]) -> tuple[int, ...]:
    found = (grad_position,) if isinstance(grad_position, int) else tuple(grad_position)
    for position in found:
        if not -len(arguments) <= position < len(arguments) or not isinstance(arguments[position], Tensor):
            raise GradientError(f"grad_position {position} names no tensor among {len(arguments)} arguments")
    return found


def jacrev(fn: Callable[..., Results], grad_position: _Positions = 0) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fn`, one pull-back for each element of the output.

    Args:
        fn: Takes tensors, returns a tensor or a tuple of tensors.
        grad_position: Which argument to differentiate by, or which ones.

    Returns:
        `(*output, *input)`; a tuple of these for several positions, and a tuple of all that for several outputs.
    """

    @wraps(fn)
    def jacobian(*arguments: Any) -> Any:
        positions = _positions(grad_position, arguments)
        varied = [arguments[position] for position in positions]
        output, pull_back = vjp(_at(fn, arguments, positions), *varied)
        outputs = output if isinstance(output, tuple) else (output,)
        found = []
        for i, y in enumerate(outputs):
            rows = vmap(lambda unit, i=i: pull_back(_alone(outputs, i, unit) if isinstance(output, tuple) else unit))
            parts = tuple(part.reshape(*y.shape, *x.shape) for part, x in zip(rows(_units(y)), varied, strict=True))
            found.append(parts[0] if isinstance(grad_position, int) else parts)
        return tuple(found) if isinstance(output, tuple) else found[0]

    return jacobian


def _alone(outputs: Sequence[Tensor], number: int, unit: Tensor) -> tuple[Tensor, ...]:
    """Return cotangents of all outputs, zero except for one."""
    return tuple(unit if i == number else wrap(np.zeros(y.shape, y.dtype)) for i, y in enumerate(outputs))


def jacfwd(fn: Callable[..., Results], grad_position: _Positions = 0) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fn`, one push-forward for each element of the input; see
    `jacrev`."""

    @wraps(fn)
    def jacobian(*arguments: Any) -> Any:
        positions = _positions(grad_position, arguments)
        columns = []
        output: Any = None
        for position in positions:
            x = arguments[position]
            output, push = linearize(_at(fn, arguments, (position,)), x)
            pushed = vmap(push, out_axes=-1)(_units(x))
            parts = pushed if isinstance(pushed, tuple) else (pushed,)
            columns.append(tuple(part.reshape(*part.shape[:-1], *x.shape) for part in parts))
        rows = [row[0] if isinstance(grad_position, int) else row for row in zip(*columns, strict=True)]
        return tuple(rows) if isinstance(output, tuple) else rows[0]

    return jacobian


def hessian(fn: Callable[..., Tensor], grad_position: _Positions = 0) -> Callable[..., Any]:
    """Return a function that returns all second derivatives of a scalar `fn`: forward over reverse.

    Returns:
        `(*input, *input)`; for several positions a tuple by the first of tuples by the second.
    """

    def gradient(*arguments: Any) -> Results:
        positions = _positions(grad_position, arguments)
        output, pull_back = vjp(_at(fn, arguments, positions), *(arguments[position] for position in positions))
        if not isinstance(output, Tensor) or output.shape:
            raise GradientError(
                f"the Hessian is that of a scalar, got an output of shape {getattr(output, 'shape', None)}; "
                f"use jacfwd(jacrev(fn))"
            )
        found = pull_back(wrap(np.ones((), output.dtype)))
        return found[0] if isinstance(grad_position, int) else found

    return wraps(fn)(jacfwd(gradient, grad_position))
