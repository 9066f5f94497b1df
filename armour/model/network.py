"""What a framework has to offer, so that its models can be attacked."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..arrays import Array


class Network(Protocol):
    """What a framework has to offer: one adapter file each."""

    framework: str

    def native(self, x: Array) -> Array:
        """`x`, a NumPy array or an array of the framework, as the array that searches work on."""

    def logits(self, x: Array) -> Array:
        """What the model returns for `x`, without a gradient."""

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """The logits of `x`, and the gradient to `x` of their product with `cotangent(logits)`."""

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """The logits of `x`, and a gradient for each of several cotangents: one pass forward, one back for each."""

    def training_modules(self) -> int:
        """How many modules are in training mode."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Puts every module into evaluation mode, and afterwards each back into its own."""
