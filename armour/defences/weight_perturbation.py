"""Adversarial weight perturbation: the gradient of each step is taken where nearby weights are worst."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...probe import aside
from ..arrays import Array, namespace
from ..arrays.rows import flat
from .recipe import Lesson
from .trainee import Trainee


@contextmanager
def worst_weights(trainee: Trainee, lesson: Lesson, gamma: float) -> Iterator[None]:
    """A block in which the weights are moved so that the lesson's loss is larger; afterwards they are as before.

    Each weight matrix moves along its own gradient, by gamma times its own length; vectors, such as biases and the
    parameters of normalisation, stay, as in the authors' own program. One step finds the direction.

    Args:
        gamma: Relative size of the move; nothing happens at 0.

    Reference:
        Wu, Xia and Wang 2020, arXiv:2004.05884, section 4.1.
    """
    if not gamma:
        yield
        return
    kept = trainee.weights()
    with aside():
        trainee.learn(lesson.inputs, lesson.loss)
    moved = [_moved(weight, gradient, gamma) for weight, gradient in zip(kept, trainee.gradients(), strict=True)]
    trainee.set_weights(moved)
    try:
        yield
    finally:
        trainee.set_weights(kept)


def _moved(weight: Array, gradient: Array | None, gamma: float) -> Array:
    if gradient is None or weight.ndim < 2:
        return weight
    xp = namespace(weight)
    own, steep = (xp.sqrt(xp.sum(flat(values) ** 2)) for values in (weight, gradient))
    return weight + gamma * own / (steep + 1e-12) * gradient
