"""Which findings are causes and which only follow: the earliest in time and data flow whose parents are healthy."""

from collections.abc import Sequence
from typing import Final

from ..storage import Finding

#: At most this many root causes are named; a longer list is no help at 3 a.m.
LIMIT: Final = 3

_NON_FINITE: Final = frozenset({"non_finite_activation", "non_finite_loss", "non_finite_gradient"})
_INSTABILITY: Final = frozenset({"exploding_gradient", "loss_spike", "loss_scale_overflow", "dead_units", *_NON_FINITE})
_STANDSTILL: Final = frozenset({"learning_rate_too_low", "vanishing_gradient"})

#: What may follow from a cause. A finding is folded under an earlier one of whose consequences it is.
_CONSEQUENCES: Final[dict[str, frozenset[str]]] = {
    "missing_zero_grad": _INSTABILITY | {"learning_rate_too_high", "missing_warmup", "vanishing_gradient"},
    "schedule_error": _INSTABILITY | _STANDSTILL | {"learning_rate_too_high", "missing_optimizer_step"},
    "bad_initialization": _INSTABILITY | _STANDSTILL | {"learning_rate_too_high", "missing_warmup"},
    "learning_rate_too_high": _INSTABILITY | _STANDSTILL | {"missing_warmup"},
    "missing_warmup": _INSTABILITY | _STANDSTILL,
    "exploding_gradient": _INSTABILITY | {"learning_rate_too_high", "missing_warmup"},
    "loss_scale_overflow": frozenset({"non_finite_gradient", "missing_optimizer_step", "learning_rate_too_low"}),
    "dead_units": _STANDSTILL | {"frozen_parameter"},
    "vanishing_gradient": frozenset({"learning_rate_too_low"}),
    "missing_optimizer_step": _STANDSTILL | {"frozen_parameter"},
    "parameter_not_in_optimizer": frozenset({"missing_optimizer_step"}),
    "frozen_parameter": frozenset({"missing_optimizer_step"}),
    "loss_input_domain": _STANDSTILL,
    "clipping_to_nothing": _STANDSTILL,
    "optimizer_state_stale": _INSTABILITY | {"learning_rate_too_high"},
}
#: After the first value that is not finite, nothing that happens later in the run means anything.
_ALL_LATER: Final = frozenset(
    {
        *_INSTABILITY,
        *_STANDSTILL,
        "learning_rate_too_high",
        "missing_warmup",
        "missing_optimizer_step",
        "frozen_parameter",
    }
)


def root_causes(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings from which the others follow, earliest first, at most `LIMIT`.

    Notices (severity info) and faults of the monitor itself are never the cause of what the model does.
    """
    candidates = sorted(filter(_matters, findings), key=appearance)
    roots: list[Finding] = []
    for finding in candidates:
        if not any(explains(root, finding) for root in roots):
            roots.append(finding)
    return tuple(roots[:LIMIT])


def explains(cause: Finding, finding: Finding) -> bool:
    """True when the finding may be a consequence of the cause, which appeared no later."""
    if cause is finding or appearance(cause) > appearance(finding):
        return False
    if cause.rule == finding.rule and cause.site == finding.site:
        return True
    if cause.cause in _NON_FINITE:
        return finding.cause in _ALL_LATER
    return finding.cause in _CONSEQUENCES.get(cause.cause, frozenset())


def _matters(finding: Finding) -> bool:
    return finding.severity != "info" and finding.cause != "monitor_fault"


def appearance(finding: Finding) -> tuple[int, tuple[int, int, int], int, str, str]:
    """What findings are sorted by: the first step, then the place in that step's data flow."""
    return (finding.first_step, finding.order, finding.rank, finding.rule, finding.site)
