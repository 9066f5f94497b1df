"""Batches by their first axis: a sample's values as a row, and a value a sample against whole samples."""

from .arrays import Array, namespace


def flat(x: Array) -> Array:
    """`x`, `(n, ...)`, as `(n, size)`."""
    return x.reshape(len(x), -1)


def per_sample(values: Array, like: Array) -> Array:
    """`(n,)` values shaped to broadcast against `like`, `(n, ...)`."""
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def is_class(logits: Array, classes: Array) -> Array:
    """`(n, classes)` bool, True at each row's own class; computed where `logits` are, without a transfer."""
    xp = namespace(logits)
    positions = xp.cumulative_sum(xp.ones_like(logits[:1]), axis=1) - 1
    return positions == classes[:, None]
