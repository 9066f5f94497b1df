"""Attention logits that grow until the softmax is one-hot."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import StepContext
from ..indicators.routing_collapse import LOST_LOGIT, SHARPER, SPAN
from ..recording import Recording, apart, chain
from ..rule import FORWARD, rule
from ..running_statistics import Floats, Mask, PersistentRows

_MODEL = chain("one:Dense", "attn:Attention", "two:Dense")
#: Growth over the first look (our choice; our healthy decoders stayed below a logit of 9).
_GROWN = 4.0
_LASTING, _START = 2, 1


@dataclass(slots=True)
class _AttentionLogitGrowthState:
    """The largest logit and the relative entropy of each row in the first look."""

    start: Floats = field(default_factory=lambda: np.zeros(0))
    entropy: Floats = field(default_factory=lambda: np.zeros(0))
    seen: Floats = field(default_factory=lambda: np.zeros(0))
    lasting: PersistentRows = field(default_factory=PersistentRows)


@rule(
    "attention-logit-growth",
    needs=("attention",),
    phase=FORWARD,
    memory=_AttentionLogitGrowthState,
    warm_up=_START + _LASTING,
    is_optional=True,
    fires_on=(
        Recording({"attn attention/max_logit": apart(2.0, 3.0, 8.0, 30.0, 80.0, 200.0)}, _MODEL),
        Recording(
            {
                "attn attention/max_logit": apart(0.1, 25.0, 50.0, 80.0),
                "attn attention/relative_entropy": apart(1.0, 0.8, 0.4, 0.2),
            },
            _MODEL,
        ),
    ),
    silent_on=(
        Recording({"attn attention/max_logit": apart(2.0, 3.0, 5.0, 8.0, 9.0, 10.0)}, _MODEL),
        Recording({"attn attention/max_logit": apart(20.0, 25.0, 30.0, 40.0, 42.0, 43.0)}, _MODEL),
        Recording({"attn attention/max_logit": apart(2.0, 3.0, 5.0, 80.0, 6.0, 5.0)}, _MODEL),
        # one key that all look at, beside others
        Recording(
            {"attn attention/max_logit": apart(2.0, 30.0, 40.0, 50.0, 60.0), "attn attention/relative_entropy": 0.8},
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _AttentionLogitGrowthState) -> Iterator[Finding]:
    """Report attention logits that have grown until one key gets everything.

    The rule fires when, in two looks in a row, the largest attention logit of a module is above 33 and above 4 times
    its first value, and the entropy is below 60 % of its first value. At this distance all other keys are lost to
    rounding, and so are their gradients. The growth leads to divergence (Dehghani et al. 2023, arXiv:2302.05442,
    section 2.1; Wortsman et al. 2023, arXiv:2309.14322, figure 1). Normalise queries and keys before their product.
    """
    table = context.table("attention")
    if table is None:
        return
    logits = np.abs(table.column("max_logit"))
    usable = table.present & np.isfinite(logits)
    entropy = table.column("relative_entropy")
    _learn_start(memory, logits, entropy, usable)
    grown = (logits > LOST_LOGIT) & (logits > _GROWN * memory.start) & (memory.seen > _START)
    grown &= ~(entropy > SHARPER * memory.entropy)  # where no entropy was recorded the logits decide
    rows = memory.lasting.newly(grown, usable, context.step, records=_LASTING, steps=SPAN)
    for row in rows[:1]:
        site = table.rows.sites[row]
        yield context.finding(
            site,
            "attention/max_logit",
            {
                "max_logit": float(logits[row]),
                "max_logit_at_first": float(memory.start[row]),
                "limit": LOST_LOGIT,
                "entropy": table.value(row, "entropy"),
                "modules": len(rows),
            },
            severity="warning",
            first_step=memory.lasting.since(row),
            explanation=f"the largest attention logit of {display_site(site)} grew from {memory.start[row]:.3g} to "
            f"{logits[row]:.3g}; above {LOST_LOGIT:.0f} the softmax gives everything to one key",
            advice="normalise queries and keys before their product (QK-norm), check the factor 1 / sqrt(head "
            "size), lower the rate, or add weight decay to their projections",
            confidence=0.9,
        )


def _learn_start(memory: _AttentionLogitGrowthState, logits: Floats, entropy: Floats, usable: Mask) -> None:
    grown = (0, len(logits) - len(memory.start))
    memory.start, memory.seen = np.pad(memory.start, grown), np.pad(memory.seen, grown)
    memory.entropy = np.pad(memory.entropy, grown)
    learns = usable & (memory.seen < _START)
    memory.start[learns], memory.entropy[learns] = logits[learns], entropy[learns]
    memory.seen[usable] += 1
