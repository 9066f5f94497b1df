"""Updates larger than the state of the optimizer allows, or a state that was lost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...storage import Event, Finding, Json, OptimizerInfo, Structure
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule


def _adam() -> Structure:
    groups: Mapping[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999], "weight_decay": 0.0}
    return replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam", (groups,)),))


def _moved(*by: float) -> dict[str, float | tuple[float, ...]]:
    return {
        "one.weight update/max": by,
        "one.weight update/min": tuple(-0.5 * value for value in by),
        "one.weight weight/max": 1.0,
        "one.weight weight/min": -1.0,
        "scalar/learning_rate": 0.001,
    }


@dataclass(slots=True)
class _Memory:
    """Which parameters were beyond the bound in the record before, since when, and for which it was said."""

    before: dict[str, int] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)


@rule(
    "optimizer-state-stale",
    needs=("update",),
    phase=OPTIMIZER,
    memory=_Memory,
    is_fact=True,
    fires_on=(
        Recording(_moved(0.001, 0.001, 0.02, 0.018), _adam()),
        Recording(_moved(0.001), _adam(), events=(Event("optimizer_state_lost", 0, data={"count": 0}),)),
    ),
    silent_on=(
        Recording(_moved(0.001, 0.001, 0.0009), _adam()),
        # written by somebody else, once
        Recording(_moved(0.001, 0.001, 0.5, 0.0009), _adam()),
        # the rate has grown, and the updates with it
        Recording(_moved(0.001, 0.009) | {"scalar/learning_rate": (0.001, 0.01)}, _adam()),
        # plain gradient descent has no bound
        Recording(_moved(0.001, 0.02), chain("one:Dense", "two:Dense")),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """Adam updates exceed what their own formula allows twice in a row, or the steps that it counts have gone back.

    By the inequality of Cauchy and Schwarz no gradients whatever can make |update| / rate larger than
    `(1 - b1) / (1 - b1^t) * sqrt((1 - b2^t) / (1 - b2) * (1 - q^t) / (1 - q))` with `q = b1^2 / b2`: 1 in the first
    step, 7.3 in the long run for (0.9, 0.999); Kingma and Ba 2015, arXiv:1412.6980, section 2.1, give 3.2 for a
    gradient that comes once. More than twice that, in two steps in a row, means that first and second moment do not
    belong together: one was lost, loaded from elsewhere, or not updated. Decay of the weights and the rounding of their
    dtype are allowed for. What moves too far once was written by somebody else than the optimizer.
    """
    yield from _lost(now)
    excess = {one.site: one for one in now.beyond_adam}
    if now.table("update") is None:
        return
    lasting = [one for site, one in excess.items() if site in memory.before and site not in memory.said]
    memory.said.update(one.site for one in lasting)
    for one in lasting[:1]:
        others = f" (and {len(lasting) - 1} more parameters like it)" if len(lasting) > 1 else ""
        yield now.finding(
            one.site,
            "update/max",
            {"update_over_rate": one.ratio, "bound": one.bound, "rate": one.rate, "parameters": len(lasting)},
            first_step=memory.before[one.site],
            explanation=f"an element of {one.site}{others} moved {one.ratio:.3g} times the rate, and as far in the "
            f"step before; no gradients can make an update of more than {one.bound:.3g} times: the two moments of the "
            "optimizer do not belong together",
            advice="look for a state that was loaded in part, reset, or kept while the parameters were replaced; save "
            "and load optimizer.state_dict() whole, and make the optimizer anew where that cannot be",
        )
    memory.before = {site: memory.before.get(site, now.step) for site in excess}


def _lost(now: Moment) -> Iterator[Finding]:
    for event in now.events("optimizer_state_lost"):
        numbers = {name: float(v) for name in ("count", "count_before") if isinstance(v := event.data.get(name), int)}
        yield now.finding(
            "",
            "update/l2_norm",
            numbers or {"count": 0.0},
            first_step=event.step,
            place=0,
            explanation=f"at step {event.step} the optimizer counts fewer steps than before: its state was lost or "
            f"replaced "
            f"by an older one in the middle of the run",
            advice="look for optimizer.state being cleared, or load_state_dict() of an old checkpoint inside the loop",
        )
