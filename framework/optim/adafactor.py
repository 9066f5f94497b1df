"""Second moments kept as the sums of rows and columns: Adafactor."""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .adaptive import not_negative
from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule

Array = NDArray[Any]


class Adafactor(Optimizer):
    """Steps relative to the size of the weights, with memory for two vectors instead of a matrix.

    A tensor of two axes or more keeps the mean squares of its rows (`row_var`) and of its columns (`col_var`), over
    its last two axes; a vector keeps all of them (`variance`). There is no first moment.

    Args:
        params: Parameters or groups.
        learning_rate: The most that the relative step may be: `min(learning_rate, 1 / sqrt(step))`.
        decay_rate: The second moments keep `1 - step ** -decay_rate`.
        eps: The least root mean square of an update's denominator (None: the dtype's own epsilon), and the least root
            mean square that weights are taken to have.
        clip_threshold: Updates of a larger root mean square are shortened to it.
        weight_decay: Share of the rate by which the weights shrink in each step.

    Reference:
        Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-2,
        decay_rate: float = 0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        clip_threshold: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            learning_rate,
            slots=("row_var", "col_var", "variance"),
            decay_rate=decay_rate,
            eps=eps,
            clip_threshold=clip_threshold,
            weight_decay=weight_decay,
        )

    def _check_options(self, group: Group) -> None:
        not_negative(self, group, "decay_rate", "weight_decay")
        if not group["clip_threshold"] > 0.0:
            raise ValueError(f"Adafactor expects clip_threshold above 0, got {group['clip_threshold']}")
        if len(group["eps"]) != 2 or any(value is not None and not value >= 0.0 for value in group["eps"]):
            raise ValueError(f"Adafactor expects eps to be two numbers of 0 or more, got {group['eps']}")

    def _slot_shape(self, name: str, shape: tuple[int, ...], group: int) -> tuple[int, ...]:
        del group
        if len(shape) < 2:
            return shape if name == "variance" else (0,)
        return {"row_var": shape[:-1], "col_var": (*shape[:-2], shape[-1]), "variance": (0,)}[name]

    def _rule(self, group: Group, step: int) -> Rule:
        fresh = step ** -group["decay_rate"]
        relative = min(group["lr"], 1.0 / sqrt(step))
        keep = 1.0 - group["lr"] * group["weight_decay"]
        return Rule(_move, (relative, fresh, keep, *group["eps"], group["clip_threshold"]), scope="tensor")


def _move(
    weight: Array,
    gradient: Array,
    rows: Array,
    columns: Array,
    variance: Array,
    relative: float,
    fresh: float,
    keep: float,
    least_root: float | None,
    least_weight: float,
    threshold: float,
) -> None:
    least = float(np.finfo(weight.dtype).eps) if least_root is None else least_root
    rate = max(least_weight, _root_mean_square(weight)) * relative
    squares = gradient * gradient
    if weight.ndim < 2:
        variance += fresh * (squares - variance)
        estimate = variance
    else:
        rows += fresh * (squares.mean(-1) - rows)
        columns += fresh * (squares.mean(-2) - columns)
        total = np.maximum(rows.mean(-1), least)[..., None, None]
        estimate = rows[..., :, None] * columns[..., None, :] / total
    update = gradient / np.sqrt(np.maximum(estimate, least * least))
    rate /= max(1.0, _root_mean_square(update) / threshold)
    weight *= keep
    weight -= update * weight.dtype.type(rate)


def _root_mean_square(array: Array) -> float:
    if not array.size:
        return 0.0
    return sqrt(float(np.square(array, dtype=np.float64).mean()))


#: MindSpore's name.
AdaFactor = Adafactor
