"""Random starts that depend on the seed and the sample alone, not on batch size, device or what else is attacked."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .standard import Rows

_BLOCK = 64  # samples that share a generator: our choice, small enough to waste little, large enough to cost nothing


def start_noise(
    draw: Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]],
    samples: Rows,
    shape: tuple[int, ...],
    key: tuple[int, ...],
) -> NDArray[np.float64]:
    """`(n, *shape)` noise for the samples of these numbers: the same for a sample in whatever company it comes.

    Args:
        draw: Draws `(k, *shape)` values from a generator.
        samples: `(n,)` numbers of the samples in the whole data set.
        shape: Shape of one sample.
        key: Seed, and what else tells this draw from others.
    """
    blocks, place = np.unique(samples // _BLOCK, return_inverse=True)
    drawn = np.stack([draw(np.random.default_rng((*key, int(block))), (_BLOCK, *shape)) for block in blocks])
    return np.asarray(drawn[place, samples % _BLOCK], np.float64)
