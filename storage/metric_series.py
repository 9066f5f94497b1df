"""Names of sites and metrics, and the series and matrices that are read back under these names."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidName

#: What can be looked at. `optimizer` is followed by the slot's own name: `optimizer/exp_avg`; any other may be
#: followed by which of several is meant: `gradient/unreduced`. `ranks` is what a roll-up keeps of groups of ranks.
SUBJECTS: Final = (
    "batch",
    "input",
    "input_grad",
    "activation",
    "activation_grad",
    "weight",
    "gradient",
    "optimizer",
    "update",
    "communication",
    "attention",
    "router",
    "quantity",
    "ranks",
    "scalar",
)

#: The site of the whole model, and of every scalar that belongs to no module.
ROOT_SITE: Final = ""

Severity = Literal["info", "warning", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error")


def metric_name(subject: str, statistic: str) -> str:
    """Return the metric `subject/statistic`, e.g. `gradient/l2_norm`."""
    return f"{subject}/{statistic}"


def split_metric(metric: str) -> tuple[str, str]:
    """Return subject and statistic of a metric; the last slash parts them: `optimizer/exp_avg/l2_norm`.

    Raises:
        InvalidName: There is no slash, one side is empty, or the subject is none of `SUBJECTS`.
    """
    subject, _, statistic = metric.rpartition("/")
    if not subject or not statistic:
        raise InvalidName(f"metric {metric!r} must read 'subject/statistic', for example 'gradient/l2_norm'")
    if subject.partition("/")[0] not in SUBJECTS:
        raise InvalidName(f"metric {metric!r} has no known subject; subjects are {', '.join(SUBJECTS)}")
    return subject, statistic


def display_site(site: str) -> str:
    """Return the site as a person reads it: the root is `(model)`."""
    return site or "(model)"


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One value a step of one metric at one site.

    Args:
        steps: `(n,)` int64, ascending; a step appears again when it had several micro-steps.
        values: `(n,)` float64; NaN and infinities are values, a missing step is simply not there.
        times: `(n,)` float64 Unix seconds.
        total: How many points the asked range holds; more than `n` when the answer was down-sampled.
    """

    site: str
    metric: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    total: int
    rank: int = 0
    call: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """One metric over all sites and steps, in at most `limit` columns.

    Args:
        sites: Rows, in call order (activations) or model order (parameters).
        steps: `(columns,)` int64, the first step of each column.
        low: `(sites, columns)` float64, the smallest finite value in the column; NaN when there is none.
        high: `(sites, columns)` float64, the largest finite value.
        non_finite: `(sites, columns)` int64, how many values of the column were NaN or infinite.
        present: `(sites, columns)` int64, how many values the column holds; 0 means missing.
    """

    metric: str
    sites: tuple[str, ...]
    steps: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    non_finite: NDArray[np.int64]
    present: NDArray[np.int64]
    rank: int = 0
