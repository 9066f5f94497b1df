"""Model inversion: inputs, made from a model alone, that show what it has learned of a class or a sample."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, from_numpy, namespace, to_numpy
from ..errors import InvalidInput
from ..model import WrappedModel


@dataclass(frozen=True, slots=True, eq=False)
class Inversion:
    """Inputs reconstructed from a model.

    Args:
        inputs: `(n, ...)` float32 within the model's bounds.
        logits: `(n, classes)` what the model makes of them.
        objective: `(n,)` what was minimised, at the inputs.
    """

    inputs: NDArray[np.float32]
    logits: NDArray[np.float64]
    objective: NDArray[np.float64]


def invert_classes(
    model: WrappedModel,
    classes: ArrayLike,
    shape: tuple[int, ...],
    *,
    steps: int = 200,
    learning_rate: float = 0.05,
    smoothness: float = 0.0,
    seed: int = 0,
) -> Inversion:
    """Make one input for each of `classes` of which the model is as sure as possible.

    Args:
        model: Wrapped.
        classes: `(n,)` integer classes.
        shape: Of one input.
        steps: Of gradient descent.
        learning_rate: Length of a step, as a share of the bounds' width, along every element's own scale.
        smoothness: Weight of the squared differences between neighbours along the last two axes.
        seed: Of the start.

    Raises:
        InvalidInput: Classes or options are out of range.

    Reference:
        Fredrikson, Jha, Ristenpart 2015, CCS, algorithm 1.
    """
    wanted = np.asarray(classes)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or not len(wanted) or wanted.min() < 0:
        raise InvalidInput(f"classes expects integers of 0 or more, shape (n,), got {wanted.dtype} {wanted.shape}")

    def judge(logits: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if wanted.max() >= logits.shape[1]:
            raise InvalidInput(f"classes expects 0 to {logits.shape[1] - 1}, got {wanted.max()}")
        rows = np.arange(len(wanted))
        log_probabilities = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        slope = np.exp(log_probabilities)
        slope[rows, wanted] -= 1.0
        return -log_probabilities[rows, wanted], slope

    return _descend(model, (len(wanted), *shape), judge, _Descent(steps, learning_rate, smoothness, seed))


def reconstruct(
    model: WrappedModel,
    logits: ArrayLike,
    shape: tuple[int, ...],
    *,
    steps: int = 400,
    learning_rate: float = 0.05,
    smoothness: float = 0.0,
    seed: int = 0,
) -> Inversion:
    """Make one input for each row of `logits` `(n, classes)` that it produces; options as `invert_classes`.

    Reference:
        Mahendran, Vedaldi 2015, arXiv:1412.0035, equation 1, with the logits as the representation.
    """
    wanted = np.asarray(logits, np.float64)
    if wanted.ndim != 2 or 0 in wanted.shape or not np.isfinite(wanted).all():
        raise InvalidInput(f"logits expects finite values (n, classes), got shape {wanted.shape}")
    scale = np.sum(wanted**2, axis=1, keepdims=True) + 1e-12

    def judge(found: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if found.shape != wanted.shape:
            raise InvalidInput(f"logits expects {found.shape[1]} classes as the model has, got {wanted.shape[1]}")
        gap = found - wanted
        return np.sum(gap**2 / scale, axis=1), 2 * gap / scale

    return _descend(model, (len(wanted), *shape), judge, _Descent(steps, learning_rate, smoothness, seed))


_Judge = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True, slots=True)
class _Descent:
    """Options of the gradient descent; see `invert_classes`."""

    steps: int
    learning_rate: float
    smoothness: float
    seed: int


def _descend(
    model: WrappedModel,
    shape: tuple[int, ...],
    judge: _Judge,
    options: _Descent,
) -> Inversion:
    """Descend by Adam with a step length that falls to zero, clipped to the box."""
    if options.steps < 1 or not options.learning_rate > 0 or options.smoothness < 0:
        raise InvalidInput(
            f"steps, learning_rate, smoothness expect 1 or more, above 0, 0 or more; "
            f"got {options.steps}, {options.learning_rate}, {options.smoothness}"
        )
    low, high = model.bounds
    generator = np.random.default_rng(options.seed)
    x = (low + (high - low) * generator.uniform(0.4, 0.6, shape)).astype(np.float32)
    mean, square = np.zeros(shape), np.zeros(shape)
    for step in range(options.steps):
        gradient = _gradient(model, x, judge) + options.smoothness * _roughness(x)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        direction = (mean / (1 - 0.9 ** (step + 1))) / (np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-12)
        length = options.learning_rate * (high - low) * (1 - step / options.steps)
        x = np.clip(x - length * direction, low, high).astype(np.float32)
    logits = to_numpy(model.logits(model.native(x))).astype(np.float64)
    return Inversion(x, logits, judge(logits)[0])


def _gradient(model: WrappedModel, x: NDArray[np.float32], judge: _Judge) -> NDArray[np.float64]:
    def cotangent(logits: Array) -> Array:
        slope = judge(to_numpy(logits).astype(np.float64))[1].astype(np.float32)
        return from_numpy(slope, logits)

    _, gradient = model.pullback(model.native(x), cotangent)
    xp = namespace(gradient)
    return to_numpy(xp.where(xp.isfinite(gradient), gradient, xp.zeros_like(gradient))).astype(np.float64)


def _roughness(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the gradient of half the squared differences between neighbours along the last two axes."""
    total = np.zeros(x.shape)
    for axis in range(max(1, x.ndim - 2), x.ndim):
        difference = np.diff(x.astype(np.float64), axis=axis)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (1, 1)
        total -= np.diff(np.pad(difference, pads), axis=axis)
    return total
