"""What an explanation needs of a model, as callables, and the checks of what these return.

The model stays where it is: whoever has one wraps it into functions of NumPy arrays. `examples/explain_a_model.py` and
`examples/explain_pytorch.py` do so.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Floats",
    "Gradient",
    "Score",
    "grad_cam",
    "gradients",
    "integrated_gradients",
    "occlusion",
    "plain_gradient",
    "resize",
    "rise",
    "scores",
    "smooth_gradient",
    "space_of",
]

Floats = NDArray[np.float64]
#: An input or a map, of any number type.
Array = NDArray[np.generic]
#: `(n, *input)` to `(n,)`: what is explained, e.g. the logit of one class, of each of several inputs.
Score = Callable[[Any], Any]  # Any: arrays of whatever float the model takes and gives
#: `(n, *input)` to `(n, *input)`: the gradient of each input's own score.
Gradient = Callable[[Any], Any]

_BATCH = 64


def scores(score: Score, inputs: Floats, *, batch: int = _BATCH) -> Floats:
    """`(n,)` the scores, asked for in batches.

    Raises:
        ValueError: The function returned something else than one number an input.
    """
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        part = np.asarray(score(given), dtype=np.float64)
        if part.shape != (len(given),):
            raise ValueError(f"score of inputs {given.shape} must have shape {(len(given),)}, got {part.shape}")
        parts.append(part)
    return np.concatenate(parts)


def gradients(gradient: Gradient, inputs: Floats, *, batch: int = _BATCH) -> Floats:
    """`(n, *input)` the gradients, asked for in batches.

    Raises:
        ValueError: The function returned another shape than the inputs'.
    """
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        part = np.asarray(gradient(given), dtype=np.float64)
        if part.shape != given.shape:
            raise ValueError(f"gradient of inputs {given.shape} must have their shape, got {part.shape}")
        parts.append(part)
    return np.concatenate(parts)


def space_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of the spatial axes: all of a vector or a matrix, the last two behind channels."""
    return shape if len(shape) < 3 else shape[-2:]


def plain_gradient(gradient: Gradient, x: Array) -> Floats:
    """Return the gradient of the score at `x`, of its shape.

    Reference:
        Simonyan et al. 2014, arXiv:1312.6034, section 3.
    """
    found: Floats = gradients(gradient, np.asarray(x, np.float64)[None])[0]
    return found


def integrated_gradients(gradient: Gradient, x: Array, *, baseline: ArrayLike = 0.0, points: int = 32) -> Floats:
    """Return what each element adds to the score on the straight line from the baseline to `x`, of its shape.

    The elements sum to the difference of the two scores, exactly where the gradient is a polynomial of degree below
    `2 * points` along the way, for the integral is Gauss's.

    Args:
        baseline: An input that says nothing, broadcast to the shape of `x`.
        points: At which the gradient is taken.

    Reference:
        Sundararajan et al. 2017, arXiv:1703.01365, eq. 1.
    """
    nodes, shares = np.polynomial.legendre.leggauss(points)
    end = np.asarray(x, np.float64)
    start = np.broadcast_to(np.asarray(baseline, np.float64), end.shape)
    places = (nodes + 1.0) / 2.0
    way = start + places.reshape(-1, *(1,) * end.ndim) * (end - start)
    found: Floats = (end - start) * np.tensordot(shares / 2.0, gradients(gradient, way), axes=1)
    return found


def smooth_gradient(gradient: Gradient, x: Array, *, noise: float = 0.15, samples: int = 50, seed: int = 0) -> Floats:
    """Return the mean gradient around `x`, of its shape.

    Args:
        noise: Standard deviation as a share of the range of `x`; the paper finds 0.1 to 0.2 to look best.

    Reference:
        Smilkov et al. 2017, arXiv:1706.03825, section 3.
    """
    at = np.asarray(x, np.float64)
    spread = noise * float(at.max() - at.min())
    around = at + spread * np.random.default_rng(seed).standard_normal((samples, *at.shape))
    found: Floats = gradients(gradient, around).mean(axis=0)
    return found


def resize(field: Floats, space: tuple[int, ...]) -> Floats:
    """Resample the field to `space` points along its axes; cell centres stay, ends are extended.

    Interpolation along one axis after the other, which is bilinear for two.
    """
    for axis, size in enumerate(space):
        length = field.shape[axis]
        at = (np.arange(size) + 0.5) * length / size - 0.5
        low = np.clip(np.floor(at).astype(np.intp), 0, length - 1)
        high = np.minimum(low + 1, length - 1)
        share = np.clip(at - low, 0.0, 1.0).reshape(-1, *(1,) * (field.ndim - axis - 1))
        field = np.take(field, low, axis) * (1.0 - share) + np.take(field, high, axis) * share
    return field


def grad_cam(activation: Array, gradient: Array, space: tuple[int, int]) -> Floats:
    """Evidence for the score at every place of the input, never negative.

    Args:
        activation: `(channels, height, width)` output of a convolution for one input.
        gradient: The same shape: gradient of the score with respect to it.
        space: Height and width of the input.

    Returns:
        `space`, interpolated between the places of the layer.

    Raises:
        ValueError: The two do not have one shape of three axes.

    Reference:
        Selvaraju et al. 2017, arXiv:1610.02391, eq. 1 and 2.
    """
    seen, slope = np.asarray(activation, np.float64), np.asarray(gradient, np.float64)
    if seen.ndim != 3 or seen.shape != slope.shape:
        raise ValueError(
            f"activation and gradient expect one shape (channels, height, width), got {seen.shape} and {slope.shape}"
        )
    weights = slope.mean(axis=(1, 2))
    return resize(np.maximum(np.tensordot(weights, seen, axes=1), 0.0), space)


#: Masks of RISE that are held at a time.
_AT_ONCE = 64


def occlusion(score: Score, x: Array, *, window: int = 4, stride: int = 2, baseline: ArrayLike = 0.0) -> Floats:
    """Return how much the score falls when a window is covered, averaged over all windows that cover a point.

    Args:
        x: A vector, a matrix, or `(channels, height, width)`, whose channels are covered together.
        window: Side of the window.
        stride: How far it moves at a time; at most the window, so that no place is left out.
        baseline: What covers, broadcast to the shape of `x`.

    Returns:
        The space of `x`: its shape without channels.

    Raises:
        ValueError: The stride would leave gaps.

    Reference:
        Zeiler and Fergus 2014, arXiv:1311.2901, section 4.2.
    """
    if not 1 <= stride <= window:
        raise ValueError(f"stride expects 1 to the window's {window}, got {stride}")
    at = np.asarray(x, np.float64)
    cover = np.broadcast_to(np.asarray(baseline, np.float64), at.shape)
    space = space_of(at.shape)
    places = list(product(*(_starts(size, window, stride) for size in space)))
    covered = np.empty((len(places), *at.shape))
    fall, count = np.zeros(space), np.zeros(space)
    windows = [tuple(slice(start, start + window) for start in index) for index in places]
    for number, window_slices in enumerate(windows):
        hidden = np.zeros(space, np.bool_)
        hidden[window_slices] = True
        covered[number] = np.where(hidden, cover, at)
    falls = scores(score, at[None])[0] - scores(score, covered)
    for window_slices, drop in zip(windows, falls.tolist(), strict=True):
        fall[window_slices] += drop
        count[window_slices] += 1.0
    return fall / count


def _starts(size: int, window: int, stride: int) -> list[int]:
    last = max(size - window, 0)
    return sorted({*range(0, last + 1, stride), last})


def rise(
    score: Score,
    x: Array,
    *,
    masks: int = 2000,
    cells: int = 7,
    keep: float = 0.5,
    baseline: ArrayLike = 0.0,
    seed: int = 0,
) -> Floats:
    """Return the mean score over the random masks that leave a point visible.

    Args:
        masks: How many; the error falls with their root. The paper takes 4000 to 8000 for 224 x 224 photographs.
        cells: Of the coarse grid that masks are drawn on, an axis; smooth between and shifted at random.
        keep: Probability that a cell is seen.
        baseline: What stands in for what is not, broadcast to the shape of `x`.

    Returns:
        The space of `x`, in units of the score.

    Reference:
        Petsiuk et al. 2018, arXiv:1806.07421, eq. 6.
    """
    at = np.asarray(x, np.float64)
    cover = np.broadcast_to(np.asarray(baseline, np.float64), at.shape)
    space = space_of(at.shape)
    rng = np.random.default_rng(seed)
    total = np.zeros(space)
    for start in range(0, masks, _AT_ONCE):
        drawn = np.stack([_mask(space, cells, keep, rng) for _ in range(min(_AT_ONCE, masks - start))])
        seen = drawn.reshape(len(drawn), *(1,) * (at.ndim - len(space)), *space)
        total += np.tensordot(scores(score, cover + seen * (at - cover)), drawn, axes=1)
    return total / (masks * keep)


def _mask(space: tuple[int, ...], cells: int, keep: float, rng: np.random.Generator) -> Floats:
    """`space`, 0 to 1: a coarse grid of kept cells, drawn large and cut out at a random shift."""
    counts = [min(cells, size) for size in space]
    steps = [-(-size // count) for size, count in zip(space, counts, strict=True)]
    grid = (rng.random([count + 1 for count in counts]) < keep).astype(np.float64)
    large = resize(grid, tuple((count + 1) * step for count, step in zip(counts, steps, strict=True)))
    shifts = [int(rng.integers(0, step)) for step in steps]
    found: Floats = large[tuple(slice(shift, shift + size) for shift, size in zip(shifts, space, strict=True))]
    return found
