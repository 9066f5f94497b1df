"""What the numbers are that a loss is given: logits, probabilities that sum to one, log-probabilities."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Domain = Literal["logits", "probabilities", "log_probabilities", "unit_interval", "constant", "non_finite", "empty"]


def domain_of(sample: NDArray[Any]) -> Domain:
    """What the rows of a sample are, as exactly as their precision allows.

    Rows that sum to one with every element in [0, 1] are `probabilities`, rows whose exponentials do are
    `log_probabilities`; both need at least two columns. Elements strictly between 0 and 1 without that are
    `unit_interval`, as a sigmoid gives; equal ones everywhere `constant`, which fits several. All else is `logits`.

    Args:
        sample: `(rows, columns)` of any floating dtype. Rounding may move a row's sum by one unit of the dtype's last
            place for each column, and that much is allowed.
    """
    if sample.size == 0:
        return "empty"
    values = np.asarray(sample, dtype=np.float64)
    if np.isnan(values).any() or np.isposinf(values).any():
        return "non_finite"
    columns = values.shape[-1]
    slack = columns * _unit(sample.dtype) * 4.0
    if columns > 1 and values.min() >= 0.0 and values.max() <= 1.0 and _is_one(values.sum(-1), slack):
        return "probabilities"
    if columns > 1 and values.max() <= slack and _is_one(np.exp(values).sum(-1), slack * _size(values)):
        return "log_probabilities"
    if np.isneginf(values).any():
        return "non_finite"
    if values.min() == values.max():
        return "constant"
    return "unit_interval" if values.min() > 0.0 and values.max() < 1.0 else "logits"


def _is_one(sums: NDArray[np.float64], slack: float) -> bool:
    return bool((np.abs(sums - 1.0) <= slack).all())


def _size(values: NDArray[np.float64]) -> float:
    """How much larger than one the finite values are: rounding is relative to them before it is exponentiated."""
    finite = values[np.isfinite(values)]
    return max(1.0, float(np.abs(finite).max())) if finite.size else 1.0


def _unit(dtype: np.dtype[Any]) -> float:
    """One unit in the last place of numbers near one."""
    if dtype.name == "bfloat16":
        return 2.0**-7
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 1e-7
