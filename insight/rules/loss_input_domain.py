"""A loss that is given the wrong kind of input: probabilities for logits, or shapes that do not match."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from ...storage import ROOT_SITE, Event, Finding, Json, Severity
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..event_fields import number
from ..indicators.executable_checks import at_two_occasions, refutation, refuted, refuted_twice, refuting_event
from ..indicators.loss_domains import WRONG, domain_of_input, is_beyond, is_certain, words_of
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
_SHARES = ("probabilities between 0 and 1", "divide pictures by 255, and give classes as 0 and 1 or one-hot")
#: What each loss expects as targets, and what to do about others.
_TARGETS: Final[dict[str, tuple[str, str]]] = {
    "binary_cross_entropy": _SHARES,
    "binary_cross_entropy_with_logits": _SHARES,
    "cross_entropy": _SHARES,
    "poisson_nll_loss": ("counts", "give it counts as they are, neither standardised nor as logarithms"),
    "kl_div": ("probabilities", "give it probabilities, or say log_target=True if these are their logarithms"),
    "log_target": ("logarithms of probabilities", "give it logarithms, or leave out log_target=True"),
}
#: Losses that compare prediction and target element by element, by torch's names.
_BY_ELEMENT: Final = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})


def _given(step: int, loss: str, domain: str, low: float = 0.0, high: float = 1.0) -> Event:
    data: dict[str, Json] = {"loss": loss, "domain": domain, "columns": 10, "values": 80, "min": low, "max": high}
    return Event("loss_input", step, data={**data, "row_sum_min": 1.0, "row_sum_max": 1.0, "shapes": [[8, 10], [8]]})


def _asking(loss: str, low: float, high: float, **options: Json) -> Event:
    event = _given(0, loss, "log_probabilities" if loss == "kl_div" else "logits", -3.0, 4.0)
    return replace(event, data={**event.data, "target_min": low, "target_max": high, "options": options})


def _made_by(operation: str) -> Event:
    event = _given(0, "binary_cross_entropy_with_logits", "unit_interval")
    return replace(event, data={**event.data, "made_by": operation})


def _of_counts(made_by: str, low: float, **options: Json) -> Event:
    event = _given(0, "poisson_nll_loss", "logits", low, 3.0)
    return replace(event, data={**event.data, "made_by": made_by, "options": options})


def _compared(*shapes: list[Json]) -> Event:
    event = _given(0, "mse_loss", "logits")
    return replace(event, data={**event.data, "shapes": list(shapes)})


@dataclass(slots=True)
class _LossInputDomainState:
    """The newest input of every loss, and what was reported."""

    given: dict[str, Event] = field(default_factory=dict)
    reported: set[tuple[str, str]] = field(default_factory=set)
    beyond: set[tuple[str, str, str]] = field(default_factory=set)


def _skip_window(lookahead: Lookahead, memory: _LossInputDomainState) -> SkipWindow | None:
    """Skip records while no loss has an input that may still prove wrong."""
    pairs = ((loss, domain_of_input(event)) for loss, event in memory.given.items())
    return lookahead.whole if all(pair not in WRONG or pair in memory.reported for pair in pairs) else None


_PAIRS = "loss_compares_pairs_once"
_BLANK = "blank_is_no_label"
_AXIS, _WEIGHTS = "softmax_is_over_the_classes", "attention_weights_sum_to_one"
_TWICE = "bounded_functions_are_applied_once"
_SELF, _SCALE = "no_sample_competes_with_itself", "scores_can_be_sure"
_BESIDE_ITSELF = refuting_event(_SELF, "the scores (96, 96) are 3.333 all along the diagonal", samples=96)
#: Checks of a loss among classes or samples: what follows if they are broken, and what to do.
_TOLD = {
    _AXIS: (
        "each answer depends on the others beside it, and the loss does not make a class likelier than the others",
        "take the softmax along the axis of the classes: dim=-1 for (samples, classes)",
    ),
    _TWICE: (
        "the predictions cannot reach most of their targets",
        "leave out the one in the loss, or the one at the end of the network",
    ),
    _SELF: (
        "the loss has a floor and pushes each sample away from itself",
        "set the diagonal of the scores to minus infinity before the softmax",
    ),
    _BLANK: (
        "the model cannot tell these labels from no label",
        "number the labels from 1 on, or give the loss another blank",
    ),
    _WEIGHTS: (
        "the sums are no means, and what one position gets depends on what others ask for",
        "take the softmax of attention scores along the keys, the last axis of (..., queries, keys)",
    ),
    _SCALE: (
        "the scores are too close together for the softmax to be sure of any, so the loss can hardly fall",
        "multiply similarities by one over the temperature: 1/0.07 is usual for cosines, and its logarithm where the "
        "scale is learned",
    ),
}
_TOO_CLOSE = refuting_event(_SCALE, "60% of 64 partners have the highest score, and the loss is 4.08", right=0.6)
#: Checks of ranges: what follows if they are broken at two steps, and what to do.
_BEYOND = {
    "targets_can_be_reached": (
        "the loss has a floor, and the predictions are driven to the flat ends of their range",
        "scale the targets to the range of the last activation, or leave that activation out",
    ),
    "generator_can_reach_the_data": (
        "the generator cannot make such data, and its judge tells both apart by their range alone",
        "scale the data to the range of the generator's last activation, such as -1 to 1 for tanh",
    ),
}
_OUTSIDE = "the values that D is given beside the output of G reach from -5 to 5, and 80% of them lie outside"
_OVER_THE_BATCH = refuting_event(_AXIS, "the softmax runs along axis 0 of (32, 10)", axis=0, classes=10)
_PAIRED = refuting_event(_PAIRS, "predictions of shape (32, 1) give (32, 32)", samples=32)


@rule(
    "loss-input-domain",
    needs=("record",),
    phase=LOSS,
    skip_window=_skip_window,
    memory=_LossInputDomainState,
    is_fact=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_given(0, "binary_cross_entropy", "logits", -0.1, 1.0),)),
        Recording(structure=_MODEL, events=(_given(0, "cross_entropy", "probabilities"),)),
        Recording(structure=_MODEL, events=(_TOO_CLOSE,)),
        Recording(structure=_MODEL, events=(refuting_event(_TWICE, "the sigmoid is applied to what a sigmoid made"),)),
        Recording(structure=_MODEL, events=(_given(0, "nll_loss", "logits", -3.0, 4.0),)),
        Recording(structure=_MODEL, events=(_given(0, "ctc_loss", "probabilities"),)),
        Recording(structure=_MODEL, events=(_given(0, "binary_cross_entropy_with_logits", "unit_interval"),), steps=6),
        Recording(structure=_MODEL, events=(_given(2, "kl_div", "probabilities"),), steps=3),
        Recording(structure=_MODEL, events=(_made_by("sigmoid"),)),
        Recording(structure=_MODEL, events=(_made_by("relu"),)),
        Recording(structure=_MODEL, events=(_of_counts("softplus", 0.1),)),
        Recording(structure=_MODEL, events=(_of_counts("addmm", -0.1, log_input=False),)),
        # a column beside a row: each is compared with all, in a loss function or in the loop's own arithmetic
        Recording(structure=_MODEL, events=(_PAIRED,)),
        Recording(structure=_MODEL, events=(_OVER_THE_BATCH,)),
        Recording(structure=_MODEL, events=(_BESIDE_ITSELF,)),
        Recording(structure=_MODEL, events=(_compared([32, 1], [32]),)),
        # a mask as the picture has it, labels of -1 and 1, logarithms, and probabilities said to be logarithms
        Recording(structure=_MODEL, events=(_asking("binary_cross_entropy_with_logits", 0.0, 255.0),)),
        Recording(structure=_MODEL, events=(_asking("binary_cross_entropy", -1.0, 1.0),)),
        Recording(structure=_MODEL, events=(_asking("kl_div", -7.0, -0.1),)),
        Recording(structure=_MODEL, events=(_asking("kl_div", 0.0, 0.9, log_target=True),)),
        Recording(structure=_MODEL, events=(_asking("poisson_nll_loss", -1.2, 2.5),)),
        *(
            Recording(structure=_MODEL, events=at_two_occasions(refuting_event(name, _OUTSIDE)), steps=2)
            for name in _BEYOND
        ),
    ),
    silent_on=(
        *(Recording(structure=_MODEL, events=(refuting_event(name, _OUTSIDE, outside=0.8),)) for name in _BEYOND),
        # a sigmoid that is sure: its output rounds to exactly 1
        Recording(structure=_MODEL, events=(_given(0, "binary_cross_entropy", "logits", 0.0, 1.0),)),
        # log-probabilities of some of the classes
        Recording(structure=_MODEL, events=(_given(0, "nll_loss", "logits", -9.0, -0.1),)),
        Recording(structure=_MODEL, events=(_given(0, "cross_entropy", "logits", -3.0, 4.0),)),
        Recording(structure=_MODEL, events=(_given(0, "cross_entropy", "log_probabilities", -3.0, 0.0),)),
        Recording(structure=_MODEL, events=(_given(0, "nll_loss", "log_probabilities", -3.0, 0.0),)),
        Recording(structure=_MODEL, events=(_given(0, "binary_cross_entropy", "unit_interval"),), steps=6),
        # logits that happened to lie between 0 and 1 at first
        Recording(
            structure=_MODEL,
            events=(
                _given(0, "binary_cross_entropy_with_logits", "unit_interval"),
                _given(2, "binary_cross_entropy_with_logits", "logits", -1.0, 1.0),
            ),
            steps=6,
        ),
        Recording(structure=_MODEL, events=(_given(0, "mse_loss", "probabilities"),)),
        Recording(structure=_MODEL, events=(_compared([32, 1], [32, 1]),)),
        # one wanted value for all, and one for each place
        Recording(structure=_MODEL, events=(_compared([32, 4], []), _compared([32, 4], [1, 4]))),
        # rates that are said to be rates, and logarithms of rates that happen to be positive
        Recording(structure=_MODEL, events=(_of_counts("softplus", 0.1, log_input=False),), steps=9),
        Recording(structure=_MODEL, events=(_of_counts("addmm", 0.1),), steps=9),
        # outputs of a fresh layer, near its bias
        Recording(structure=_MODEL, events=(_made_by("addmm"),), steps=9),
    ),
)
def check(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Report a loss whose input has the wrong domain or shape.

    The probe looks at a few rows of the input. Rows that sum to one within rounding are probabilities; rows whose
    exponentials do are log-probabilities. No network produces such logits by chance. Values between 0 and 1 are less
    certain: the rule fires if a sigmoid made them, or, if the operation is unknown, if they stay there for three
    further steps. `cross_entropy` of log-probabilities equals that of logits and is not reported. A Poisson likelihood
    takes the exponential of what it is given unless it is told otherwise: then values of a softplus are wrong.

    Losses that compare element by element are checked for shapes that broadcast along each other. Then every prediction
    is compared with every target, and the best that the model can learn is their mean. A target that alone is broadcast
    may be meant. The same is read from the graph of a loss that the training computes itself.

    A softmax must run along the axis of the classes, and a sigmoid or tanh must not be applied to what the same one
    has made; that is read from the graph of the loss. In attention it must run
    along the axis that is summed over. A loss that chooses each sample's partner may not have the sample itself among
    the candidates, and its scores must be far enough apart: where partners have the highest score and the loss is that
    of guessing, a scale or temperature is wrong.

    Predictions that a tanh or sigmoid makes are compared with their targets, and a generator that ends in one with the
    data that its judge is given: more than 5 % beyond the range, at steps 1 and 25, cannot be reached. Targets of
    trainings by rewards are left out.

    Targets must be what the loss means: probabilities for a cross-entropy of real targets, with half of that beyond on
    either side for smoothed ones; counts for a Poisson likelihood; probabilities, or their logarithms where it was told
    so, for a divergence.

    Give the loss logits, or the domain that it expects, and equal shapes.
    """
    yield from _stretched(context, memory)
    yield from _paired(context, memory)
    yield from _told(context, memory)
    yield from _beyond(context, memory)
    yield from _asked(context, memory)
    for event in context.events("loss_input"):
        memory.given[str(event.data.get("loss"))] = event
    for loss, event in memory.given.items():
        domain = domain_of_input(event)
        wrong = WRONG.get((loss, domain))
        if (
            wrong is None
            or not is_beyond(loss, domain, event)
            or (loss, domain) in memory.reported
            or not is_certain(event, wrong[2], context.step - event.step)
        ):
            continue
        memory.reported.add((loss, domain))
        numbers = {name: value for name in _NUMBERS if isinstance(value := event.data.get(name), int | float)}
        yield context.finding(
            str(event.data.get("module") or ROOT_SITE),
            "scalar/loss",
            numbers,
            first_step=event.step,
            position=0,
            explanation=f"{loss} is given {words_of(domain, event)}, from {numbers.get('min', 0):.4g} to "
            f"{numbers.get('max', 0):.4g}; {wrong[0]}",
            advice=wrong[1],
            confidence=0.95,
        )


def _asked(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Yield a finding for targets that the loss cannot mean."""
    for event in context.events("loss_input"):
        loss = str(event.data.get("loss"))
        if "target_max" not in event.data or (loss, "asked") in memory.reported:
            continue
        memory.reported.add((loss, "asked"))
        low, high = number(event, "target_min"), number(event, "target_max")
        means, advice = _TARGETS["log_target" if _is_of_logarithms(event) else loss]
        yield context.finding(
            str(event.data.get("module") or ROOT_SITE),
            "scalar/loss",
            {"target_min": low, "target_max": high},
            first_step=event.step,
            position=0,
            explanation=f"{loss} is given targets from {low:.4g} to {high:.4g}, where it expects {means}; then it has "
            "no lower bound, or not where the answers are right",
            advice=advice,
            confidence=0.95,
        )


def _is_of_logarithms(event: Event) -> bool:
    options = event.data.get("options")
    return isinstance(options, dict) and bool(options.get("log_target"))


def _stretched(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Yield a finding where prediction and target broadcast along each other."""
    for event in context.events("loss_input"):
        loss, shapes = str(event.data.get("loss")), event.data.get("shapes")
        if loss not in _BY_ELEMENT or (loss, "stretched") in memory.reported or not isinstance(shapes, list):
            continue
        predicted, wanted = (_sizes(shape) for shape in shapes) if len(shapes) == 2 else ((), ())
        if not _stretch_each_other(predicted, wanted):
            continue
        memory.reported.add((loss, "stretched"))
        yield context.finding(
            str(event.data.get("module") or ROOT_SITE),
            "scalar/loss",
            {"predictions": prod(predicted), "targets": prod(wanted)},
            first_step=event.step,
            position=0,
            explanation=f"{loss} is given predictions of shape {predicted} and targets of shape {wanted}, and "
            "broadcasts each along the other; it compares every prediction with every target, so the best that the "
            "model can learn is their mean",
            advice="make both shapes equal: squeeze the prediction's last axis, or unsqueeze the target's",
        )


def _paired(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Yield a finding where the graph of the loss holds all pairs of predictions and targets."""
    for event in refuted(context, _PAIRS):
        if any(kind in ("stretched", _PAIRS) for _, kind in memory.reported):
            continue
        memory.reported.add(("", _PAIRS))
        yield refutation(
            context,
            event,
            consequence="the best that the model can learn is the mean of the targets",
            advice="make both shapes equal: squeeze the prediction's last axis, or unsqueeze the target's",
            metric="scalar/loss",
        )


def _told(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Yield a finding for a softmax over another axis than that of the classes, or over a sample itself."""
    for event in refuted(context, *_TOLD):
        check = str(event.data.get("check"))
        if ("", check) not in memory.reported:
            memory.reported.add(("", check))
            consequence, advice = _TOLD[check]
            severity: Severity = "warning" if check == _SCALE else "error"
            yield refutation(
                context, event, consequence=consequence, advice=advice, metric="scalar/loss", severity=severity
            )


def _beyond(context: StepContext, memory: _LossInputDomainState) -> Iterator[Finding]:
    """Yield a finding for values that a tanh or a sigmoid cannot reach."""
    for event in refuted_twice(context, memory.beyond, *_BEYOND):
        check = str(event.data.get("check"))
        if ("", check) in memory.reported or context.kind.name in ("policy", "value", "preference"):
            continue
        memory.reported.add(("", check))
        consequence, advice = _BEYOND[check]
        yield refutation(
            context,
            event,
            consequence=consequence,
            advice=advice,
            metric="scalar/loss",
            severity="warning",
            confidence=0.9,
        )


def _sizes(shape: Json) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else ()


def _stretch_each_other(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return whether each shape has an axis longer than one where the other has one or none."""
    axes = max(len(first), len(second))
    pairs = list(zip((1,) * (axes - len(first)) + first, (1,) * (axes - len(second)) + second, strict=True))
    return any(a > b == 1 for a, b in pairs) and any(b > a == 1 for a, b in pairs)


_NUMBERS = ("min", "max", "row_sum_min", "row_sum_max", "columns", "values")
