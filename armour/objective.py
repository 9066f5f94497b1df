"""What a search climbs: directions in logit space, computed once for NumPy and torch alike."""

from collections.abc import Callable

from .arrays import Array, is_class, namespace
from .criterion import Criterion

#: Direction `(n, classes)` in which the logits should move for the criterion to be met.
Objective = Callable[[Array, Criterion], Array]


def cross_entropy(logits: Array, criterion: Criterion) -> Array:
    """Gradient of the cross-entropy to the logits, each sample's divided by the probability of all other classes.

    The gradient of the cross-entropy is `p - onehot(y)`, and `1 - p_y` underflows when the logits are large: sign and
    direction are then lost, and the model only seems robust. Divided by `1 - p_y` the entries are the softmax over the
    other classes and -1 at `y`: the same direction for every sample, exact at any scale of the logits. Attacks that use
    the gradient's sign or direction, as all here do, are otherwise unchanged.

    Args:
        logits: `(n, classes)`.
        criterion: Its anchor is moved away from, or towards when targeted.

    Returns:
        `(n, classes)` in the dtype of `logits`.

    Reference:
        Carlini and Wagner 2017, arXiv:1608.04644, section 5 (the masking); the scaling is our choice.
    """
    xp = namespace(logits)
    own = is_class(logits, criterion.anchor)
    others = xp.where(own, -xp.inf, logits)
    shares = xp.exp(others - xp.amax(others, axis=1, keepdims=True))
    shares = shares / xp.sum(shares, axis=1, keepdims=True)
    away = xp.where(own, -1.0, shares)
    return -away if criterion.is_targeted else away
