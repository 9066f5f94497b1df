"""A listener that leaves everything that torch reports alone."""

from collections.abc import Callable, Sequence
from typing import Any

from ...guard import Guard


class SilentListener:
    """A `TrainingListener` and a `CallListener`; a subclass writes what it wants to hear.

    Attributes:
        guard: Takes what its methods raise.
        wraps_backward: Never.
    """

    wraps_backward = False

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """Leave loss functions alone."""

    def loss_returned(self, result: Any, options: dict[str, Any]) -> None:
        """Leave their results alone."""

    def gradients_clipped(self, parameters: Any, limit: float, norm: Any) -> None:
        """Leave clipping alone."""

    def backward_begins(self, roots: Any) -> None:
        """Leave backward passes alone."""

    def backward_unrecorded(self, roots: Any) -> None:
        """Leave those of idle steps alone."""

    def backward_ends(self) -> None:
        """Leave their ends alone."""

    def around_backward(self, roots: Any) -> Sequence[Any]:
        """Return no contexts."""
        del roots
        return ()

    def gradients_asked(self, roots: Any, inputs: Any, create_graph: bool) -> None:
        """Leave gradients without a backward pass alone."""

    def gradients_given(self, inputs: Any, gradients: Any) -> None:
        """Leave them alone."""

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Leave loss scalers alone."""

    def scaler_steps(self, optimizer: Any) -> None:
        """Leave loss scalers alone."""

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Leave loss scalers alone."""
