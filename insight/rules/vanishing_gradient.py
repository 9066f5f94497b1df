"""A gradient that decays on its way back through the layers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...storage import Finding, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_LAYERS = [f"layer{at}" for at in range(6)]
_MODEL = chain(*(f"{name}:Dense" for name in _LAYERS))
#: In 37 healthy trainings the early third was never below 1e-3 of the late third; ten sigmoid layers are at 4e-9.
_LIMIT = 1e-4
_LASTING = 12
#: Share of the fall that may lie between two networks of the model. Our choice.
_JUMP = 0.7


@dataclass(slots=True)
class _VanishingGradientState:
    """For how long the gradient has been lost on its way."""

    streak: int = 0
    since: int = 0
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _VanishingGradientState) -> SkipWindow | None:
    def learn(records: int) -> None:
        if lookahead.context.depth is not None:
            memory.streak = 0

    return lookahead.whole if memory.is_reported else SkipWindow(lookahead.plain_depths(), learn)


@rule(
    "vanishing-gradient",
    needs=("gradient",),
    phase=BACKWARD,
    skip_window=_skip_window,
    memory=_VanishingGradientState,
    warm_up=_LASTING,
    fires_on=(
        Recording(
            {f"{name}.weight gradient/l2_norm": (100.0 ** (at - 6),) * 22 for at, name in enumerate(_LAYERS)}, _MODEL
        ),
    ),
    silent_on=(
        Recording({f"{name}.weight gradient/l2_norm": (2.0**at,) * 22 for at, name in enumerate(_LAYERS)}, _MODEL),
        # lost for a moment only
        Recording(
            {
                f"{name}.weight gradient/l2_norm": (10.0 ** (2 * at - 12),) * 10 + (1.0,) * 12
                for at, name in enumerate(_LAYERS)
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _VanishingGradientState) -> Iterator[Finding]:
    """Report gradients that hardly reach the first layers.

    The rule fires when, for 12 records, the gradients of the first third of the weight matrices are below 1e-4 of those
    of the last third. It compares medians of root mean squares, in call order, of at least four matrices. Gradients of
    exactly zero belong to dead units or cut paths and are left out, and so is a profile that falls between two
    networks of the model alone: an actor beside a critic is no first layer of it. Add residual connections or
    normalisation, and initialise for the activation in use.
    """
    profile = context.depth
    if profile is None or memory.is_reported:
        return
    if not profile.ratio < _LIMIT or profile.jump > _JUMP:
        memory.streak = 0
        return
    memory.since = context.step if memory.streak == 0 else memory.since
    memory.streak += 1
    if memory.streak >= _LASTING:
        memory.is_reported = True
        per_layer = profile.ratio ** (1 / max(1, profile.matrices - 1))
        yield context.finding(
            profile.first,
            "gradient/l2_norm",
            {
                "early_over_late": profile.ratio,
                "limit": _LIMIT,
                "factor_per_layer": per_layer,
                "matrices": profile.matrices,
                "records": memory.streak,
            },
            severity="warning",
            first_step=memory.since,
            explanation=f"the gradient at {display_site(profile.first)} is {profile.ratio:.1e} of that at "
            f"{display_site(profile.last)}; each layer passes on about {per_layer:.2g} of it, so the first layers "
            "hardly learn",
            advice="replace sigmoid or tanh by ReLU or GELU, add residual connections or normalisation, and "
            "initialise for the activation in use (He for ReLU, Xavier for tanh)",
            confidence=float(np.clip(0.6 + 0.05 * -np.log10(profile.ratio), 0.6, 0.95)),
        )
