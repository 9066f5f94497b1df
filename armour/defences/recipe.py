"""What a defence teaches at one step: the inputs to learn from, and the loss of their logits."""

from typing import NamedTuple, Protocol

from ..arrays import Array
from ..model import Model
from .trainee import Loss


class Lesson(NamedTuple):
    """One step's inputs and loss.

    Args:
        inputs: Native, one batch; a recipe may put clean and attacked inputs behind each other.
        loss: Of the logits of all of them.
        attacked: Which of the inputs are attacked, in the order of the batch; empty where none is.
    """

    inputs: Array
    loss: Loss
    attacked: slice


class Recipe(Protocol):
    """A defence that is a choice of inputs and loss."""

    def lesson(self, model: Model, x: Array, labels: Array, key: tuple[int, ...]) -> Lesson:
        """What is to be learned from native inputs `(n, ...)` with native classes `(n,)`.

        Args:
            model: In training; inputs are attacked in evaluation mode.
            key: Random numbers of different keys differ.
        """
