"""Losses of defences as functions of logits, with their gradients in closed form: the same for every framework."""

from ..arrays import Array, cast, namespace
from ..arrays.rows import is_class


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """The mean over samples of minus the log-probability of the label, and its gradient to the logits.

    Args:
        logits: `(n, classes)`.
        labels: `(n,)` native classes.
    """
    return soft_cross_entropy(logits, cast(is_class(logits, labels), logits), 1.0)


def soft_cross_entropy(logits: Array, targets: Array, temperature: float) -> tuple[float, Array]:
    """The mean cross-entropy with `(n, classes)` probabilities of the logits divided by the temperature.

    Reference:
        Hinton, Vinyals and Dean 2015, arXiv:1503.02531, section 2.
    """
    xp = namespace(logits)
    logs = log_softmax(logits / temperature)
    slope = (xp.exp(logs) - targets) / (len(logits) * temperature)
    return float(-xp.sum(targets * logs)) / len(logits), slope


def divergence(clean: Array, moved: Array) -> tuple[float, Array, Array]:
    """The mean Kullback-Leibler divergence of the probabilities of `moved` from those of `clean`.

    Returns:
        The value, and its gradients to both `(n, classes)` logits.
    """
    xp = namespace(clean)
    logs, other = log_softmax(clean), log_softmax(moved)
    p, gap = xp.exp(logs), logs - other
    each = xp.sum(p * gap, axis=1, keepdims=True)
    return float(xp.sum(each)) / len(clean), p * (gap - each) / len(clean), (xp.exp(other) - p) / len(clean)


def log_softmax(logits: Array) -> Array:
    """`(n, classes)` log-probabilities, safe from overflow."""
    xp = namespace(logits)
    shifted = logits - xp.max(logits, axis=1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
