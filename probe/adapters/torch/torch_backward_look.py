"""Calls a function after every backward pass of the training, where no forward of a module is sure to be seen."""

from collections.abc import Callable

from ...aside import is_aside
from ...guard import Guard
from .silent_listener import SilentListener
from .torch_patches import add_listener, remove_listener


class BackwardLook(SilentListener):
    """Calls a function after each backward pass, which shows that the step before is over.

    A `Stopped` of the function's reaches the training, as it does from every listener.

    Args:
        look: The function.
        guard: Takes everything else that it raises.
    """

    def __init__(self, look: Callable[[], None], guard: Guard) -> None:
        super().__init__(guard)
        self._look = look
        add_listener(self)

    def remove(self) -> None:
        """Call it no more."""
        remove_listener(self)

    def backward_ends(self) -> None:
        """Call the function, unless a check of ours has run the pass."""
        if not is_aside():
            self._look()

    def gradients_given(self, inputs: object, gradients: object) -> None:
        """Do what `backward_ends` does."""
        self.backward_ends()
