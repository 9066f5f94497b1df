"""Clipping of gradients by their common length."""

from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from typing import Any

import numpy as np

from ..context import CAPTURE
from ..dtype import Array
from ..ops import isfinite as are_finite
from ..ops import logical_and, square, where
from ..tensor import Parameter, Tensor
from .optimizer_memory import is_native
from .parameter_update import load_kernels


def clip_by_global_norm(gradients: Iterable[Tensor | Array | None], max_norm: float) -> float:
    """Return the global L2 norm before clipping; gradients longer than `max_norm` together are shortened to it, in
    place.

    When the norm is NaN or infinite nothing is changed: scaling by it would turn finite gradients into zeros or NaN and
    hide where the fault began. Look at the returned norm to decide what to do.

    Args:
        gradients: Parameters (their `.grad` counts), gradient tensors or arrays; None counts as zero. An array that
            appears twice counts twice and is scaled once.
        max_norm: Above 0; dimension of the gradient.

    Raises:
        ValueError: `max_norm` is not above 0, or an array to be scaled is read-only.

    Reference:
        Pascanu et al. 2013, arXiv:1211.5063, algorithm 1.
    """
    if not max_norm > 0.0:
        raise ValueError(f"clip_by_global_norm expects max_norm above 0, got {max_norm}")
    if CAPTURE.get() is not None:
        norm_in_graph: float = _clip_in_graph(list(gradients), max_norm)
        return norm_in_graph
    tensors = [x for x in map(_gradient_of, gradients) if x is not None]
    norm = global_norm(tensors)
    if isfinite(norm) and norm > max_norm:
        for array in distinct(tensors):
            scale_in_place(array, max_norm / norm)
    return norm


def _clip_in_graph(gradients: "list[Any]", max_norm: float) -> Any:
    """Return the norm as a tensor of the graph that is being captured; the gradients stand for shortened ones from
    here on."""
    tensors = [x.grad if isinstance(x, Parameter) else x for x in gradients]
    distinct_tensors = {id(x): x for x in tensors if x is not None}
    total: Any = 0.0
    for x in tensors:
        if x is not None:
            total = total + square(x.astype(np.float64)).sum()
    if not distinct_tensors:
        return 0.0
    norm = total.sqrt()
    factor = where(logical_and(are_finite(norm), norm > max_norm), max_norm / norm, 1.0)
    for x in distinct_tensors.values():
        x.become(x * factor.astype(x.dtype))
    return norm


def global_norm(gradients: Sequence[Array]) -> float:
    """Return the L2 norm of all the arrays as one vector, accumulated in float64."""
    kernels = load_kernels()
    total = 0.0
    for array in gradients:
        wide = array if is_native(array) else array.astype(np.float32)
        total += kernels.sum_of_squares(np.ascontiguousarray(wide).reshape(-1))
    return sqrt(total) if total == total else total


def distinct(gradients: Sequence[Array]) -> list[Array]:
    """Return the arrays without those that start at the same place in memory as an earlier one."""
    return list({array.__array_interface__["data"][0]: array for array in reversed(gradients)}.values())


def scale_in_place(gradient: Array, factor: float) -> None:
    """Multiply the array by `factor`.

    Raises:
        ValueError: The array is read-only.
    """
    if not gradient.flags.writeable:
        raise ValueError(
            f"a gradient of shape {gradient.shape} is read-only and cannot be scaled in place; copy it before clipping"
        )
    if is_native(gradient) and gradient.flags.c_contiguous:
        load_kernels().scale(gradient.reshape(-1), float(factor))
    else:
        gradient[...] = gradient * gradient.dtype.type(factor)


def _gradient_of(source: Tensor | Array | None) -> Array | None:
    if isinstance(source, Parameter):
        source = source.grad
    return source.numpy() if isinstance(source, Tensor) else source
