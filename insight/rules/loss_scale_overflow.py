"""A loss scale of mixed precision that is too high, or collapses."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..recording import Recording
from ..rule import BACKWARD, rule

#: Skipped steps in a row: as many halvings bring any usual first scale (2**16 to 2**24) to 1 or below.
_TOO_MANY = 25
_SETTLED = 100
_RECENT = 50


@dataclass(slots=True)
class _LossScaleOverflowState:
    """The newest skipped steps, and the scale."""

    skips: deque[bool] = field(default_factory=lambda: deque(maxlen=_RECENT))
    in_a_row: int = 0
    since: int = 0
    good: int = 0
    scale: float = float("nan")
    scale_at_first_skip: float = float("nan")
    is_reported: bool = False


@rule(
    "loss-scale-overflow",
    needs=("scalar/loss_scale",),
    phase=BACKWARD,
    memory=_LossScaleOverflowState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording({"scalar/loss_scale": (65536.0,) * 8}, skipped=tuple(range(2, 8))),
        Recording({"scalar/loss_scale": tuple(16.0 / 2**at for at in range(8))}, skipped=tuple(range(8))),
    ),
    silent_on=(
        # the scaler finds its scale
        Recording(
            {"scalar/loss_scale": tuple(65536.0 / 2**at for at in range(8)) + (512.0,) * 9}, skipped=tuple(range(8))
        ),
        # one overflow when it tries a higher one
        Recording({"scalar/loss_scale": (1024.0,) * 150 + (512.0,) * 50}, skipped=(149,)),
    ),
)
def check(context: StepContext, memory: _LossScaleOverflowState) -> Iterator[Finding]:
    """Report mixed-precision steps that keep overflowing.

    The rule fires after 5 skipped steps in a row at a scale that does not fall, at a scale below 1, after 25 skipped
    steps in a row, and after 10 skips among the newest 50 steps once 100 steps were good. Skipped steps train nothing.

    A dynamic scale starts too high on purpose and halves until gradients fit; now and then it overflows when it tries a
    higher scale (Micikevicius et al. 2018, arXiv:1710.03740). That is not reported. Use a dynamic scale, and look for
    NaN in the forward pass if it collapses.
    """
    _learn(context, memory)
    if memory.is_reported or not context.record.skipped or isnan(memory.scale):
        return
    stays = memory.in_a_row >= 5 and memory.scale >= 0.99 * memory.scale_at_first_skip
    why = {
        "the scale does not fall": stays,
        "the scale has fallen below 1": memory.scale < 1,
        f"{memory.in_a_row} steps in a row overflowed": memory.in_a_row >= _TOO_MANY,
        f"{sum(memory.skips)} of the newest {len(memory.skips)} steps overflowed": memory.good >= _SETTLED
        and sum(memory.skips) >= _RECENT // 5,
    }
    reasons = [words for words, holds in why.items() if holds]
    if reasons:
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "scalar/loss_scale",
            {"loss_scale": memory.scale, "skipped_in_a_row": memory.in_a_row, "skipped_of_newest": sum(memory.skips)},
            first_step=memory.since,
            explanation=f"gradients overflow at a loss scale of {memory.scale:.6g}: {' and '.join(reasons)}; skipped "
            "steps train nothing",
            advice="lower a fixed scale, or use a dynamic one; if a dynamic scale collapses, the gradients "
            "themselves are too large or not finite: look for NaN in the forward pass, clip after unscaling, or use "
            "bfloat16",
        )


def _learn(context: StepContext, memory: _LossScaleOverflowState) -> None:
    scale = context.scalar("loss_scale")
    memory.scale = scale if scale is not None else memory.scale
    memory.skips.append(context.record.skipped)
    if not context.record.skipped:
        memory.in_a_row = 0
        memory.good += 1
        return
    if memory.in_a_row == 0:
        memory.since, memory.scale_at_first_skip = context.step, memory.scale
    memory.in_a_row += 1
