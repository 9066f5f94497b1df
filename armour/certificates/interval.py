"""Interval bound propagation: the smallest and largest value of every unit, each on its own."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...framework import Tensor
from ..arrays import Floats
from ..errors import InvalidModel
from .program import Program, Step

#: Functions that are linear in the slot, with the positions where it may stand; all else must be constant.
PRODUCTS: Final[dict[str, tuple[int, ...]]] = {
    "conv": (0,), "conv_bias": (0,), "divide": (0,), "linear": (0,), "matmul": (0, 1), "multiply": (0, 1),
}  # fmt: skip
#: Sums of slots and constants.
SUMS: Final[tuple[str, ...]] = ("add", "subtract", "concat")
#: Linear functions of one argument without negative coefficients.
ARRANGEMENTS: Final[tuple[str, ...]] = (
    "avg_pool", "broadcast_to", "cast", "getitem", "identity", "mean", "pad", "reshape", "sum", "swapaxes", "transpose",
)  # fmt: skip
#: Functions that grow with every slot, of which a rule for linear bounds may know more.
MONOTONE: Final[tuple[str, ...]] = ("relu", "maximum", "minimum", "max_pool", "clip")


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Bounds of one slot, `(1, ...)` float64 each."""

    low: Floats
    high: Floats


def is_affine(step: Step) -> bool:
    """Whether the output is an affine function of the slots together."""
    name, slots = step.primitive.name, step.slots
    if name in PRODUCTS:
        return len(slots) == 1 and slots[0][0] in PRODUCTS[name]
    return name in (*SUMS, *ARRANGEMENTS, "negative")


def interval_bounds(program: Program, region: Interval) -> list[Interval]:
    """The bounds of every slot, the input's first.

    Args:
        program: From `record`.
        region: The inputs, `(1, ...)`.

    Raises:
        InvalidModel: A primitive without a rule; the message names it.

    Reference:
        Gowal et al. 2018, arXiv:1810.12715, section 3.
    """
    found = [region]
    for step in program.steps:
        found.append(step_interval(step, found))
    return found


def step_interval(step: Step, known: list[Interval]) -> Interval:
    """The bounds of a step's output from those of the slots before it."""
    if is_affine(step):
        return _affine(step, known)
    if step.primitive.name in MONOTONE:
        low, high = (
            step.apply({place: Tensor(getattr(known[slot], side)) for place, slot in step.slots}).numpy()
            for side in ("low", "high")
        )
        return Interval(low, high)
    raise InvalidModel(
        f"no bounds are known through the primitive '{step.primitive.name}'; certificates by bounds know dense, "
        f"convolution, normalization in evaluation mode, relu, pooling and arrangements of axes; else smooth the model"
    )


def _affine(step: Step, known: list[Interval]) -> Interval:
    middle = {place: Tensor((known[slot].low + known[slot].high) / 2) for place, slot in step.slots}
    spread = {place: Tensor((known[slot].high - known[slot].low) / 2) for place, slot in step.slots}
    centre = step.apply(middle).numpy()
    name = step.primitive.name
    if name in ("negative", "subtract"):
        parts = [np.broadcast_to(x.numpy(), step.shape) for x in spread.values()]
        radius = np.sum(parts, axis=0)
    elif name in PRODUCTS:
        weights = step.inputs[1] if name in ("linear", "conv_bias") else None
        radius = step.apply(spread, lambda x: _absolute(x) if weights is None or x is weights else _zero(x)).numpy()
    else:
        radius = step.apply(spread, _zero).numpy()
    return Interval(centre - radius, centre + radius)


def _absolute(x: Any) -> Any:
    return Tensor(np.abs(x.numpy())) if isinstance(x, Tensor) else abs(x)


def _zero(x: Any) -> Any:
    return Tensor(np.zeros_like(x.numpy())) if isinstance(x, Tensor) else 0.0
