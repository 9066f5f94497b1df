"""A model in training: a pass whose loss is a function of its logits, and the optimizer's step, in any framework."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..arrays import Array

#: Of `(n, classes)` logits: the loss, and its gradient to the logits.
Loss = Callable[[Array], tuple[float, Array]]


class Optimizer(Protocol):
    """Any optimizer, of the engine or of torch, that applies the gradients which its parameters hold."""

    def zero_grad(self) -> None:
        """No parameter holds a gradient."""

    def step(self) -> Any:
        """Applies them; Any: torch returns a loss."""


class Trainee(Protocol):
    """What a framework offers a defence; arrays are native, as those of `Model`."""

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """The loss and the logits at `x`, in the model's own mode; parameters hold the gradients of the loss."""

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """The same, and the gradient to `x`."""

    def step(self) -> None:
        """Moves the parameters by the gradients that they hold."""

    def weights(self) -> list[Array]:
        """Copies of the trainable parameters."""

    def gradients(self) -> list[Array | None]:
        """What each of them holds as its gradient."""

    def set_weights(self, values: Sequence[Array]) -> None:
        """Nothing; the trainable parameters have these values."""
