"""Weights, or a first loss, that start at the wrong scale."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, log, nan, sqrt

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json, display_site
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..event_fields import number
from ..indicators.lowered_findings import asked
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule

_MODEL = chain("one:Dense", "two:Dense", "three:Dense", shape=(64, 64))
#: std x sqrt(fan_in) is the factor by which a layer scales its input: 1 for LeCun and Xavier, 1.41 for He, 0.58 for
#: PyTorch's default, 0.06 for the smallest residual projection of GPT-2 at width 64.
_HUGE, _TINY = 8.0, 0.01
#: Gain up to which weights are as usual: sqrt(2) before ReLU, and some more.
_USUAL = 2.0
_FEWEST = 16
#: Names of the matrices that layers apply to their input; a memory key or a token is a parameter of another name.
_OF_A_LAYER = ("weight", "kernel")
_WAITED = 3
#: Times the loss of guessing. Logits of deviation s cost about s^2 / 2 more than guessing. Our healthy models start
#: with s below 1.5; three times the loss of guessing takes an s of 3 for ten classes, of 6 for 10^4.
_ABOVE_GUESSING = 3.0
#: Root mean square from which `unnormalized-input` calls an input large.
_LARGE_INPUT = 10.0


def _initial(site: str, std: float, mean: float = 0.0) -> Event:
    data: dict[str, Json] = {"std": std, "mean": mean, "fan_in": 64, "shape": [64, 64]}
    return Event("initial_weight", 0, site, data=data)


def _called(low: float, high: float) -> Event:
    data: dict[str, Json] = {"loss": "cross_entropy", "domain": "logits", "columns": 10, "min": low, "max": high}
    return Event("loss_input", 0, data=data)


def _stays(norm: float) -> dict[str, tuple[float, ...]]:
    return {f"{site}.weight weight/l2_norm": (norm,) * 4 for site in ("one", "two")}


@dataclass(slots=True)
class _BadInitializationState:
    """Matrices that started at zero, and whether the first loss was judged."""

    zeros: list[Event] = field(default_factory=list)
    waited: int = 0
    has_first_loss: bool = False


def _skip_window(lookahead: Lookahead, memory: _BadInitializationState) -> SkipWindow | None:
    return lookahead.whole if memory.has_first_loss and not memory.zeros else None


_OF_BOXES = Event("loss_input", 0, data={"loss": "l1_loss"})


@rule(
    "bad-initialization",
    needs=("structure",),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_BadInitializationState,
    fires_on=(
        Recording(structure=_MODEL, events=(_initial("one.weight", 10.0),)),
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.0, 0.5),)),
        Recording(structure=_MODEL, events=(_initial("one.weight", 1e-6),)),
        Recording(_stays(0.0), _MODEL, events=(_initial("one.weight", 0.0), _initial("two.weight", 0.0))),
        Recording({"scalar/loss": 40.0}, _MODEL, events=(_initial("one.weight", 0.9), _called(-60.0, 55.0))),
    ),
    silent_on=(
        # keys of a memory, which are compared with, and a fixed projection onto random frequencies
        Recording(structure=chain("one:MemoryAttention", shape=(64, 64)), events=(_initial("one.keys", 1.0),)),
        Recording(
            structure=chain("one:Dense", "two:Dense", frozen=["one.weight"], shape=(64, 64)),
            events=(_initial("one.weight", 10.0),),
        ),
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.176), _initial("two.weight", 0.02))),
        # the ends of two branches, which learn at once
        Recording(_stays(0.1), _MODEL, events=(_initial("one.weight", 0.0), _initial("two.weight", 0.0))),
        # a policy's last layer, small so that all actions are as likely at first
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.1), _initial("three.weight", 0.00125))),
        # a last layer or a residual branch that starts at zero on purpose
        Recording(structure=_MODEL, events=(_initial("one.weight", 0.1), _initial("three.weight", 0.0))),
        # a first loss as of a model that was trained on something else, and one of several terms
        Recording({"scalar/loss": 5.0}, _MODEL, events=(_initial("one.weight", 0.1), _called(-9.0, 8.0))),
        Recording({"scalar/loss": 40.0}, _MODEL, events=(_initial("one.weight", 0.1), _called(-0.3, 0.4))),
        # a distance of boxes beside the classes
        Recording(
            {"scalar/loss": 40.0},
            _MODEL,
            events=(
                _initial("one.weight", 0.9),
                _called(-60.0, 55.0),
                Event("loss_input", 0, data={"loss": "l1_loss"}),
            ),
        ),
        # pixels up to 255
        Recording(
            {"scalar/loss": 40.0, " batch/l2_norm": 8 * 130.0},
            _MODEL,
            events=(_initial("one.weight", 0.1), _called(-60.0, 55.0)),
        ),
    ),
)
def check(context: StepContext, memory: _BadInitializationState) -> Iterator[Finding]:
    """Report weights, or a first loss, that start at the wrong scale.

    The scale of a dense layer or a convolution is its standard deviation times the root of its fan-in (Glorot and
    Bengio 2010; He et al. 2015, arXiv:1502.01852). The rule fires when it is above 8 or below 0.01, or when all weights
    are one constant: a constant other than zero keeps all units alike for ever.

    A zero matrix is usual at the end of a residual branch and in adapters, where it leaves zero with the first step.
    The rule fires when two or more of them, half of all matrices, get no gradient or are still zero after three steps.
    A small matrix at an end of the model is usual too: policies start with a gain of 0.01 (Andrychowicz et al. 2021,
    arXiv:2006.05990, section 3.2).

    Guessing among C classes costs log(C). A first cross-entropy of three times that, from logits as far apart, means
    that the model is sure and wrong before it has learned anything (Karpathy, "A Recipe for Training Neural Networks":
    verify the loss at the start). Initialise so that each layer keeps the scale of its input.
    """
    if memory.has_first_loss and not memory.zeros and not context.events("initial_weight"):
        return
    events = [event for event in context.events("initial_weight") if _is_judged(context, event)]
    zeros = [event for event in events if number(event, "std") == 0 and number(event, "mean") == 0]
    if len(zeros) >= 2 and 2 * len(zeros) >= len(events):
        memory.zeros = zeros
    yield from _still_zero(context, memory)
    huge = [event for event in events if _gain(event) > _HUGE]
    tiny = [event for event in events if 0 < _gain(event) < _TINY and not context.model.is_an_end(event.site)]
    constant = [event for event in events if number(event, "std") == 0 and number(event, "mean") != 0]
    for events_of_kind, words in (
        (constant, "all its values are equal, so all its units compute and learn the same"),
        (huge, "a layer that keeps the scale of its input has a gain near 1"),
        (tiny, "almost nothing of its input or of the gradient passes through"),
    ):
        if events_of_kind:
            yield _report(context, events_of_kind[0], words, others=len(events_of_kind) - 1)
    if not memory.has_first_loss and context.scalar("loss") is not None:
        memory.has_first_loss = True
        if not (huge or constant):  # which say why the loss is so high
            yield from _first_loss(context)


def _first_loss(context: StepContext) -> Iterator[Finding]:
    """Yield a finding if weights make the first loss high; high input is left to `unnormalized-input`."""
    loss, matrices = (
        context.scalar("loss") or 0.0,
        [event for event in context.events("initial_weight") if _gain(event) > 0.0],
    )
    amplifier = _amplifier(context)
    if _is_of_its_input(context) or _has_other_terms(context):
        return
    for event in context.events("loss_input"):
        columns, options = event.data.get("columns"), event.data.get("options")
        is_mean = not isinstance(options, dict) or options.get("reduction", "mean") == "mean"
        is_of_classes = event.data.get("loss") in ("cross_entropy", "nll_loss") and isinstance(columns, int)
        if not (is_of_classes and is_mean and matrices) or context.has_a_surrogate_loss:
            continue
        guessing = log(max(int(number(event, "columns")), 2))
        limit = _ABOVE_GUESSING * guessing
        if limit < loss < inf and max(number(event, "max") - number(event, "min"), _reach_of_outputs(context)) > limit:
            words = f"the first loss is {loss:.4g}, where guessing costs {guessing:.3g}"
            if amplifier is not None:
                yield _amplified(context, words, loss, *amplifier)
            else:
                widest = max(matrices, key=_gain)
                found = _report(context, widest, f"{words}, and no matrix scales more")
                words = f"{found.explanation}; are the outputs multiplied by design, as by a temperature?"
                yield found if _gain(widest) > _USUAL else asked(found, words)


def _has_other_terms(context: StepContext) -> bool:
    """Return whether loss functions other than those of classes were called."""
    called = {str(event.data.get("loss")) for event in context.events("loss_input")}
    return not called <= {"cross_entropy", "nll_loss"}


def _reach_of_outputs(context: StepContext) -> float:
    """Return the range of the values of the last layer with weights; NaN if it was not recorded."""
    table = context.table("activation")
    if table is None:
        return nan
    last = [row for row, site in enumerate(table.rows.sites) if context.model.order(site) == context.model.last_layer]
    return table.value(last[0], "max") - table.value(last[0], "min") if last and table.present[last[0]] else nan


def _amplifier(context: StepContext) -> tuple[str, float] | None:
    """Return the first module whose output is `_HUGE` times its input by root mean square, and that factor."""
    table = context.table("activation")
    if table is None:
        return None
    sites = table.rows.sites
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = np.where(table.present, table.column("l2_norm") / np.sqrt(table.column("size")), nan)
    by_site = dict(zip(sites, sizes.tolist(), strict=True))
    for site in sorted(by_site, key=context.model.order):
        taken = [by_site[source] for source in context.model.inputs(site) if by_site.get(source, 0.0) > 0.0]
        if taken and _HUGE < by_site[site] / max(taken) < inf and context.model.has_weights(site):
            return site, by_site[site] / max(taken)
    return None


def _amplified(context: StepContext, words: str, loss: float, site: str, gain: float) -> Finding:
    return context.finding(
        site,
        "activation/l2_norm",
        {"gain": gain, "largest_gain": _HUGE, "first_loss": loss},
        position=max(context.model.order(site), 0),
        explanation=f"{words}; before any training the output of {display_site(site)} is {gain:.3g} times as large "
        "as its input",
        advice="initialise so that each layer keeps the scale of its input; the largest eigenvalue of a recurrent "
        "matrix must be near 1, since it is applied at every position; check that no loop overwrote the default",
        confidence=0.9,
    )


def _is_of_its_input(context: StepContext) -> bool:
    """Return whether the input, unless it holds tokens, is large enough to explain a high loss."""
    table = context.table("batch")
    if table is None or context.table("batch/tokens") is not None or ROOT_SITE not in table.rows.sites:
        return False
    row = table.rows.sites.index(ROOT_SITE)
    return table.value(row, "l2_norm") > _LARGE_INPUT * sqrt(max(table.value(row, "size"), 1.0))


def _still_zero(context: StepContext, memory: _BadInitializationState) -> Iterator[Finding]:
    table = context.table("weight")
    if not memory.zeros or table is None:
        return
    memory.waited += 1
    if memory.waited < _WAITED and not _get_nothing(context, memory.zeros):
        return
    norms = dict(zip(table.rows.sites, table.column("l2_norm"), strict=True))
    still = [event for event in memory.zeros if norms.get(event.site) == 0.0]
    memory.zeros = []
    if len(still) >= 2:
        yield _report(context, still[0], f"all {len(still)} such matrices start at zero, so no gradient passes through")


def _get_nothing(context: StepContext, zeros: list[Event]) -> bool:
    """Return whether no gradient reaches any of these matrices though others get theirs."""
    table = context.table("gradient")
    if table is None:
        return False
    norms = dict(zip(table.rows.sites, np.where(table.present, table.column("l2_norm"), 1.0), strict=True))
    return bool(np.any(table.column("l2_norm")[table.present] > 0)) and all(
        norms.get(event.site) == 0.0 for event in zeros
    )


def _is_judged(context: StepContext, event: Event) -> bool:
    shape = event.data.get("shape")
    sizes = [int(size) for size in shape if isinstance(size, int | float)] if isinstance(shape, list | tuple) else []
    values = 1
    for size in sizes:
        values *= size
    item = context.model.parameters.get(event.site)
    is_trained = item is None or item.requires_grad  # a fixed matrix is drawn as its method wants it
    is_layer = any(word in event.site.rpartition(".")[2] for word in _OF_A_LAYER)
    return len(sizes) >= 2 and values >= _FEWEST and is_layer and is_trained and context.model.is_linear_map(event.site)


def _gain(event: Event) -> float:
    return number(event, "std") * sqrt(max(number(event, "fan_in"), 1.0))


def _report(context: StepContext, event: Event, words: str, others: int = 0) -> Finding:
    more = f" ({others} more matrices like it)" if others else ""
    return context.finding(
        event.site,
        "weight/std",
        {
            "std": number(event, "std"),
            "mean": number(event, "mean"),
            "fan_in": number(event, "fan_in"),
            "gain": _gain(event),
            "largest_gain": _HUGE,
            "smallest_gain": _TINY,
            "others": others,
        },
        first_step=event.step,
        position=max(context.model.order(event.site), 0),
        explanation=f"{display_site(event.site)} starts with mean {number(event, 'mean'):.3g} and standard deviation "
        f"{number(event, 'std'):.3g}, which is a gain of {_gain(event):.3g} for {number(event, 'fan_in'):.0f} "
        f"inputs; {words}{more}",
        advice="initialise with standard deviation sqrt(2 / fan_in) before ReLU or GELU, and sqrt(1 / fan_in) "
        "otherwise (gains of 1.4 and 1); check that no loop overwrote the default, and that the checkpoint was "
        "really loaded",
        confidence=0.9,
    )
