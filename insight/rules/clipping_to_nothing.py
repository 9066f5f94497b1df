"""Gradient clipping with a limit far below every gradient."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import ROOT_SITE, Finding
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule

_MODEL = chain("one:Dense", "two:Dense")
_ADAM = chain("one:Dense", "two:Dense", optimizer="Adam")
#: A limit that takes 99 % of every gradient is no safeguard against spikes. Our choice: large models that are clipped
#: to 1 start with norms of 10 to 60 and are below 5 after their warm-up.
_NOTHING = 0.01
_IN_A_ROW = 10
#: Optimizers whose step does not change if all gradients are scaled, and the least limit that is usual with them (our
#: choice: published agents clip norms of 50 and more to 0.5; far below, epsilon would count).
_SCALE_FREE = ("adam", "nadam", "radam", "rmsprop", "adagrad", "adadelta", "lion", "adafactor")
_USUAL_LIMIT = 0.1


@dataclass(slots=True)
class _ClippingToNothingState:
    """For how many clippings in a row next to nothing was left."""

    streak: int = 0
    since: int = 0
    is_reported: bool = False


@rule(
    "clipping-to-nothing",
    needs=("scalar/clip/coefficient",),
    phase=OPTIMIZER,
    memory=_ClippingToNothingState,
    warm_up=_IN_A_ROW,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording({"scalar/clip/norm": 2.0, "scalar/clip/coefficient": (0.0005,) * 12}, _MODEL),
        Recording({"scalar/clip/norm": 65.0, "scalar/clip/coefficient": (0.0077,) * 12}, _MODEL),
        Recording({"scalar/clip/norm": 2.0, "scalar/clip/coefficient": (0.00005,) * 12}, _ADAM),
        # before the loss scale was divided out again
        Recording(
            {
                "scalar/clip/norm": 2e4,
                "scalar/clip/coefficient": (0.00005,) * 12,
                "scalar/loss_scale": 65536.0,
                "scalar/gradient_norm": 1 / 65536,
            },
            _MODEL,
        ),
        Recording(
            {
                "scalar/clip/norm": 2e4,
                "scalar/clip/coefficient": (0.00005,) * 12,
                "scalar/loss_scale": 65536.0,
                "scalar/gradient_norm": 1 / 65536,
            },
            _ADAM,
        ),
    ),
    silent_on=(
        Recording({"scalar/clip/norm": 2.0, "scalar/clip/coefficient": (0.5,) * 12}, _MODEL),
        # Adam divides by the size of its gradients, so a usual limit takes nothing away
        Recording({"scalar/clip/norm": 65.0, "scalar/clip/coefficient": (0.0077,) * 12}, _ADAM),
        # a start with large gradients
        Recording({"scalar/clip/coefficient": (0.005,) * 6 + (0.1,) * 12}, _MODEL),
        Recording({"scalar/clip/coefficient": (1.0,) * 8 + (0.001,) + (1.0,) * 8}, _MODEL),
    ),
)
def check(context: StepContext, memory: _ClippingToNothingState) -> Iterator[Finding]:
    """Report clipping that removes nearly the whole gradient.

    The rule fires when ten clippings in a row leave less than a hundredth of the gradient. Clipping is meant for rare
    spikes (Pascanu et al. 2013, arXiv:1211.5063, choose the limit from the average of the norms). If it scales every
    step, plain gradient descent stands still, and an adaptive optimizer no longer sees how large its gradients are.
    Adam and its like take the same step with all gradients scaled, so there only a limit below 0.1 is reported; a limit
    that met gradients times a loss scale was that many times smaller. Choose a limit near the usual norm of the
    gradient.
    """
    coefficient = context.scalar("clip/coefficient")
    if coefficient is None or coefficient != coefficient:
        return
    memory.streak = memory.streak + 1 if coefficient < _NOTHING else 0
    memory.since = context.step if memory.streak == 1 else memory.since
    if memory.streak < _IN_A_ROW or memory.is_reported:
        return
    norm = context.scalar("clip/norm")
    scale = context.scalar("loss_scale") or 1.0
    is_scaled = norm is not None and _is_scaled(context, scale, coefficient * norm)
    limit = None if norm is None else coefficient * norm / (scale if is_scaled else 1.0)
    if limit is not None and limit >= _USUAL_LIMIT and _is_scale_free(context):
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "scalar/clip/coefficient",
        {"coefficient": coefficient, "norm": float("nan") if norm is None else norm, "in_a_row": memory.streak},
        severity="warning",
        first_step=memory.since,
        position=0,
        explanation=f"since step {memory.since} clipping has left only {coefficient:.2g} of every gradient"
        + ("" if norm is None else f"; the norm before clipping is {norm:.4g}")
        + (f", of gradients that are still multiplied by the loss scale {scale:.4g}" if is_scaled else ""),
        advice="call scaler.unscale_(optimizer) before clipping, so that the limit meets the gradients themselves"
        if is_scaled
        else "choose a limit near the usual norm of the gradient, such as the median of clip/norm; if the loss is "
        "a sum over the batch, make it a mean",
    )


def _is_scaled(context: StepContext, scale: float, clipped: float) -> bool:
    """Return whether the norm after clipping is the loss scale times that of the gradients which the step has used."""
    used = context.scalar("gradient_norm")
    return scale > 1.0 and used is not None and 0.5 * clipped < used * scale < 2.0 * clipped


def _is_scale_free(context: StepContext) -> bool:
    """Return whether every optimizer takes the same step with all gradients scaled."""
    optimizers = context.model.structure.optimizers
    return bool(optimizers) and all(item.kind.lower().startswith(_SCALE_FREE) for item in optimizers)
