"""Calls a function after every backward pass of the training, where no forward of a module is sure to be seen."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch

from ...aside import is_aside
from .torch_patches import add_listener, remove_listener


class BackwardLook:
    """Calls a function after each backward pass, which shows that the step before is over.

    What the function raises reaches the training.

    Args:
        look: The function.
    """

    wraps_backward = False

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        add_listener(self)

    def remove(self) -> None:
        """Call it no more."""
        remove_listener(self)

    def backward_begins(self, roots: object) -> None:
        """Do nothing."""

    def gradients_asked(self, roots: object, inputs: object, create_graph: bool) -> None:
        """Do nothing."""

    def around_backward(self, roots: object) -> Sequence[AbstractContextManager[object]]:
        """Return no contexts."""
        return ()

    def backward_unrecorded(self, roots: object) -> None:
        """Do nothing."""

    def backward_ends(self) -> None:
        """Call the function, unless a check of ours has run the pass."""
        if not is_aside():
            self._look()

    def gradients_given(self, inputs: object, gradients: object) -> None:
        """Do what `backward_ends` does."""
        self.backward_ends()

    def loss_scaled(self, loss: object, scaled: object, scaler: torch.amp.GradScaler) -> None:
        """Do nothing."""

    def scaler_steps(self, optimizer: torch.optim.Optimizer) -> None:
        """Do nothing."""

    def scaler_stepped(self, optimizer: torch.optim.Optimizer, scale: Callable[[], float]) -> None:
        """Do nothing."""
