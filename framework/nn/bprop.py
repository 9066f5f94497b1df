"""Cells that define their own gradient, as `bprop(self, *inputs, out, dout)` beside `construct`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..context import is_recording
from ..errors import GradientError
from ..transforms.custom_vjp import call_with_rule

__all__ = ["with_bprop"]


def with_bprop(construct: Callable[..., Any]) -> Callable[..., Any]:
    """The `construct` of a cell class, whose gradient is what the cell's `bprop` returns.

    `bprop` takes the inputs, the output and the gradient of the output, and returns a gradient for each input. The cell
    may have no trained parameters: they would get none.
    """

    @wraps(construct)
    def constructed(self: Any, *inputs: Any, **options: Any) -> Any:
        if is_recording():
            for name, parameter in self.parameters_and_names():
                if parameter.requires_grad:
                    raise GradientError(
                        f"bprop of {type(self).__name__} gives gradients to inputs only, but the cell has a trained "
                        f"parameter '{name}'; pass it as an input, or set its requires_grad to False"
                    )

        def forward(*given: Any) -> tuple[Any, Any]:
            output = construct(self, *given, **options)
            return output, (given, output)

        def backward(residuals: Any, gradient: Any) -> Any:
            given, output = residuals
            found = self.bprop(*given, output, gradient)
            return found if isinstance(found, tuple | list) else (found,)

        return call_with_rule(lambda *given: construct(self, *given, **options), forward, backward, inputs, {})

    return constructed
