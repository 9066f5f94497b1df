"""Attention in which every query looks at one token."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan

import numpy as np

from ...storage import Finding, display_site
from ...storage.percent import percent
from ..context.step_context import StepContext
from ..indicators.routing_collapse import ONE_HOT, SPAN
from ..recording import Recording, apart, chain
from ..rule import FORWARD, rule
from ..running_statistics import PersistentRows

_MODEL = chain("one:Dense", "attn:Attention", "two:Dense")
_LASTING = 2


@dataclass(slots=True)
class _AttentionEntropyCollapseState:
    """Since when each module's attention is one-hot, and which modules were reported."""

    lasting: PersistentRows = field(default_factory=PersistentRows)


@rule(
    "attention-entropy-collapse",
    needs=("attention",),
    phase=FORWARD,
    memory=_AttentionEntropyCollapseState,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(Recording({"attn attention/relative_entropy": apart(0.9, 0.4, 0.01, 0.005, 0.004)}, _MODEL),),
    silent_on=(
        Recording({"attn attention/relative_entropy": apart(0.9, 0.6, 0.4, 0.3, 0.2)}, _MODEL),
        Recording({"attn attention/relative_entropy": apart(0.9, 0.01, 0.4, 0.3, 0.01)}, _MODEL),
        Recording({"attn attention/relative_entropy": apart(*(float("nan"),) * 5)}, _MODEL),
    ),
)
def check(context: StepContext, memory: _AttentionEntropyCollapseState) -> Iterator[Finding]:
    """Report attention that looks at one token only.

    The rule fires when the attention of a module has less than 5 % of its largest possible entropy in two looks in a
    row, over all heads and queries looked at. A head that copies one token is no fault; a module in which all heads do
    has lost its gradient (Zhai et al. 2023, arXiv:2303.06296, section 2). Check the factor 1 / sqrt(head size) and the
    mask.
    """
    table = context.table("attention")
    if table is None:
        return
    entropy = table.column("relative_entropy")
    usable = table.present & np.isfinite(entropy)
    rows = memory.lasting.newly(entropy < ONE_HOT, usable, context.step, records=_LASTING, steps=SPAN)
    for row in rows[:1]:
        site, largest = table.rows.sites[row], table.value(row, "max_logit")
        yield context.finding(
            site,
            "attention/relative_entropy",
            {
                "relative_entropy": float(entropy[row]),
                "limit": ONE_HOT,
                "entropy": table.value(row, "entropy"),
                "max_logit": largest,
                "modules": len(rows),
            },
            severity="warning",
            first_step=memory.lasting.since(row),
            explanation=f"the attention of {display_site(site)} has only {percent(entropy[row], decimals=2)} of its "
            f"largest possible entropy{'' if isnan(largest) else f', with logits up to {largest:.3g}'}; every "
            "query looks at one key only",
            advice="check the factor 1 / sqrt(head size) and the mask; normalise queries and keys, or lower the "
            "rate and the gain of their projections",
            confidence=0.9,
        )
