"""The demo's two data sets: scikit-learn's digits, and the text of Python's own manual."""

from collections.abc import Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from ..failures import WrongUse

#: Digits held out for the evaluation after training.
_HELD_OUT = 397
_BRIGHTEST = 16.0


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Handwritten digits, split into training and held-out ones.

    Args:
        images: `(n, 1, 8, 8)` float32 between 0 and 1.
        labels: `(n,)` int64, 0 to 9.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_out_images: NDArray[np.float32]
    held_out_labels: NDArray[np.int64]


def digits(seed: int = 0) -> Digits:
    """Return the 1797 digits of scikit-learn, shuffled by `seed`, the last 397 held out.

    Raises:
        WrongUse: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise WrongUse(
            "the demo's digits come with scikit-learn; install it with: pip install 'mindscope[demo]'"
        ) from None
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images = np.ascontiguousarray(pixels[order].reshape(-1, 1, 8, 8) / _BRIGHTEST, dtype=np.float32)
    labels = labels[order].astype(np.int64)
    return Digits(images[:-_HELD_OUT], labels[:-_HELD_OUT], images[-_HELD_OUT:], labels[-_HELD_OUT:])


def manual() -> NDArray[np.uint8]:
    """Return the language reference that `help()` prints, as one long line of bytes (about 700 kB)."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def shuffled_batches(
    images: NDArray[np.float32], labels: NDArray[np.int64], size: int, seed: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield endless batches of `size`, every epoch in a new order, all images of an epoch but the last few once."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(labels))
        for start in range(0, len(labels) - size + 1, size):
            chosen = order[start : start + size]
            yield images[chosen], labels[chosen]


def windows(
    text: NDArray[np.uint8], context: int, size: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield batches of `size` windows of the text and the same windows one byte later, both `(size, context)`."""
    generator = np.random.default_rng(seed)
    offsets = np.arange(context + 1)
    while True:
        starts = generator.integers(0, len(text) - context, size=size)
        found = text[starts[:, None] + offsets].astype(np.int64)
        yield found[:, :-1], found[:, 1:]
