"""Derivatives of fused primitives through the same function composed of basic ones.

The first derivative of a fused primitive is a fused primitive too. Its own derivative, the second, is asked for rarely:
instead of a third kernel it is taken from a composition, which the tape can differentiate as often as one likes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..context import CAPTURE, is_recording, recording
from ..primitive import Results
from ..tape import backpropagate
from ..tape_node import Gradient
from ..tensor import Tensor, wrap
from .layout import identity

__all__ = ["derived_from"]


def _alias(x: Any, needed: bool, connected: bool) -> Any:
    """Return a place to stop at: a tensor of the same values, behind which the graph goes on where it is recorded."""
    if not needed:
        return x.detach() if isinstance(x, Tensor) else x
    if connected:
        return identity(x)
    fresh = wrap(x.numpy())
    fresh.requires_grad = True
    return fresh


def derived_from(composition: Callable[..., Results]) -> Callable[..., Sequence[Tensor | None]]:
    """Return a joint rule for a primitive that computes what `composition(*inputs, **attributes)` does."""

    def rule(
        needs: Sequence[bool], g: Gradient, _: object, *inputs: object, **attributes: object
    ) -> Sequence[Tensor | None]:
        capture = CAPTURE.get()
        if capture is not None:
            traced: Sequence[Tensor | None] = capture.pull_back(composition, needs, g, inputs, attributes)
            return traced
        create_graph = is_recording()
        with recording():
            aliases = [_alias(x, need, create_graph) for x, need in zip(inputs, needs, strict=True)]
            result = composition(*aliases, **attributes)
        outputs = result if isinstance(result, tuple) else (result,)
        weights = (g,) if isinstance(g, Tensor) else g
        roots = [(y, w) for y, w in zip(outputs, weights, strict=True) if w is not None and y.requires_grad]
        wanted = [alias for alias, need in zip(aliases, needs, strict=True) if need]
        found = iter(
            backpropagate(
                [y for y, _ in roots],
                wanted,
                [w for _, w in roots],
                create_graph=create_graph,
                retain_graph=create_graph,
            )
        )
        return [next(found) if need else None for need in needs]

    return rule
