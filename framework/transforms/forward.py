"""Forward mode on functions: the derivative along a direction.

The pull-back of a function is linear in its cotangent, so its own pull-back, taken at any cotangent, is the
push-forward: forward mode needs no rules besides those of reverse mode.

Reference:
    Townsend 2017, "A new trick for calculating Jacobian vector products".
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..context import DEPTH
from ..dtype import is_inexact
from ..errors import GradientError
from ..ops.create import zeros_like
from ..tape import gradients
from ..tensor import Tensor
from .gradient import alias, detached, filled, inside_transform

__all__ = ["jvp", "linearize"]


def jvp(fn: Callable[..., Any], primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[Any, Any]:
    """`fn(*primals)` and its derivative along the tangents.

    Args:
        fn: Returns a tensor, or a tuple of tensors; so is the derivative.
        primals: Where it is evaluated.
        tangents: One of the shape of each primal.
    """
    output, push = linearize(fn, *primals)
    return output, push(*tangents)


def linearize(fn: Callable[..., Any], *primals: Tensor) -> tuple[Any, Callable[..., Any]]:
    """`fn(*primals)` and its derivative there, a linear function of tangents, to be called as often as one likes."""
    with inside_transform() as nested:
        aliases = [alias(x, nested) for x in primals]
        output = fn(*aliases)
        outputs = output if isinstance(output, tuple) else (output,)
        roots = [y for y in outputs if y.requires_grad]
        probes = [zeros_like(y) for y in roots]
        for probe in probes:
            probe.requires_grad = True
        pulled: Sequence[Tensor | None] = (None,) * len(aliases)
        if roots:
            pulled = gradients(roots, aliases, probes, create_graph=True)

    def push(*tangents: Tensor) -> Any:
        _check(primals, tangents)
        ways = [(g, t) for g, t in zip(pulled, tangents, strict=True) if g is not None and g.requires_grad]
        found: Sequence[Tensor | None] = (None,) * len(probes)
        if ways:
            found = gradients(
                [g for g, _ in ways], probes, [t for _, t in ways], create_graph=DEPTH.get() > 0, retain_graph=True
            )
        rest = iter(found)
        pushed = tuple(filled(next(rest) if y.requires_grad else None, y) for y in outputs)
        return pushed if isinstance(output, tuple) else pushed[0]

    return output if nested else detached(output), push


def _check(primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> None:
    if len(primals) != len(tangents):
        raise GradientError(f"a derivative by {len(primals)} primals expects a tangent each, got {len(tangents)}")
    for i, (x, t) in enumerate(zip(primals, tangents, strict=True)):
        if not isinstance(t, Tensor) or t.shape != x.shape or not is_inexact(t.dtype):
            came = f"{t.shape} {t.dtype}" if isinstance(t, Tensor) else type(t).__name__
            raise GradientError(f"tangent {i} expects a floating-point Tensor of shape {x.shape}, got {came}")
