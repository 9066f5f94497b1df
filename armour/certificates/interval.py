"""Interval bound propagation: the smallest and largest value of every unit, each on its own."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...framework import Tensor
from ..array_api import Floats
from ..errors import InvalidModel
from .network_program import NetworkProgram, ProgramStep

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


def is_affine(step: ProgramStep) -> bool:
    """Return whether the output is an affine function of the slots together."""
    name, slots = step.primitive.name, step.slots
    if name in PRODUCTS:
        return len(slots) == 1 and slots[0][0] in PRODUCTS[name]
    return name in (*SUMS, *ARRANGEMENTS, "negative")


def interval_bounds(program: NetworkProgram, region: Interval) -> list[Interval]:
    """Return the bounds of every slot, beginning with the input.

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


def step_interval(step: ProgramStep, known: list[Interval]) -> Interval:
    """Return the bounds of a step's output from those of the slots before it."""
    if is_affine(step):
        return _affine(step, known)
    if step.primitive.name in MONOTONE:
        low, high = (
            step.apply({position: Tensor(getattr(known[slot], side)) for position, slot in step.slots}).numpy()
            for side in ("low", "high")
        )
        return Interval(low, high)
    raise InvalidModel(
        f"no bounds are known for the primitive '{step.primitive.name}'; certificates by bounds support dense, "
        f"convolution, normalization in evaluation mode, relu, pooling and arrangements of axes; else smooth the model"
    )


def _affine(step: ProgramStep, known: list[Interval]) -> Interval:
    middle = {position: Tensor((known[slot].low + known[slot].high) / 2) for position, slot in step.slots}
    spread = {position: Tensor((known[slot].high - known[slot].low) / 2) for position, slot in step.slots}
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


def _absolute(x: Tensor | float) -> Tensor | float:
    return Tensor(np.abs(x.numpy())) if isinstance(x, Tensor) else abs(x)


def _zero(x: object) -> Tensor | float:
    return Tensor(np.zeros_like(x.numpy())) if isinstance(x, Tensor) else 0.0
