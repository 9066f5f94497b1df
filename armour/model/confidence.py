"""How sure a model is of a sample's true class, on the scale on which members and others are nearly normal."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Floats, to_numpy
from ..errors import InvalidInput
from .classifier import Model


def model_logits(model: Model, x: Any, batch_size: int = 256) -> Floats:
    """`(n, classes)` float64 logits of inputs `(n, ...)`."""
    if batch_size < 1 or len(x) == 0:
        raise InvalidInput(f"expected one sample or more and batches of 1 or more, got {len(x)} and {batch_size}")
    native = model.native(x)
    parts = [to_numpy(model.logits(native[i : i + batch_size])) for i in range(0, len(x), batch_size)]
    return np.concatenate(parts).astype(np.float64)


def probabilities(model: Model, x: Any) -> Floats:
    """`(n, classes)` softmax of the logits of inputs `(n, ...)`."""
    logits = model_logits(model, x)
    return np.asarray(np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)), np.float64)


def true_class_margin(logits: Floats, y: ArrayLike) -> Floats:
    """`(n,)` log(p / (1 - p)) of the true class's probability p, exact where p rounds to 0 or 1.

    Args:
        logits: `(n, classes)`, two classes or more.
        y: `(n,)` integer classes.

    Reference:
        Carlini et al. 2022, arXiv:2112.03570, section V-C.
    """
    labels = np.asarray(y)
    if labels.shape != logits.shape[:1] or labels.dtype.kind not in "iu":
        raise InvalidInput(f"y expects {len(logits)} integer classes, got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise InvalidInput(f"y expects classes 0 to {logits.shape[1] - 1}, got {labels.min()} to {labels.max()}")
    rows = np.arange(len(logits))
    others = logits.copy()
    others[rows, labels] = -np.inf
    peak = others.max(axis=1)
    margin: Floats = logits[rows, labels] - peak - np.log(np.exp(others - peak[:, None]).sum(axis=1))
    return margin


def cross_entropy(logits: Floats, y: ArrayLike) -> Floats:
    """`(n,)` negative logarithm of the true class's probability."""
    return np.logaddexp(0.0, -true_class_margin(logits, y))
