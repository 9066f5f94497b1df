"""Expressions of a program that are not what their names say, and noise that is not what a sampler starts from."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_FITS = "values_fit_their_names"
#: What follows from values that a formula cannot give, and what to do about them.
_NO_SAMPLER = "a sampler begins where the model was never trained"
_VALUES = {
    "writes_to_one_place_are_added_up": (
        "messages, counts or sums that belong together are lost",
        "use index_add_, scatter_add_, or index_put_ with accumulate=True",
    ),
    "noise_is_alone_at_its_last_level": (
        _NO_SAMPLER,
        "weigh data and noise by the roots of the cumulative product of 1 - beta and "
        "of its rest; draw the step from the whole schedule",
    ),
    "a_state_is_carried": (
        "nothing of one step in time reaches the next",
        "keep what the cell has answered, and give it to the next call; zeros are for the first one",
    ),
    "chosen_codes_are_near": (
        "what is looked up stands for something else than what it was chosen for",
        "choose the smallest distance |x|^2 - 2 x e + |e|^2, or the largest scalar product",
    ),
    "scores_know_both_positions": (
        "attention cannot tell how far a token is away",
        "encode positions in queries and keys alike: rotate both by the same angles",
    ),
    "noise_is_normal": (_NO_SAMPLER, "draw the noise by randn_like, as the sampler does"),
}
_OF_THE_FLOW = ("chosen_codes_are_near", "scores_know_both_positions")


def _tried(outcome: str) -> Recording:
    words = "train.py:41: std = logvar.exp() is the variance"
    return Recording(structure=_MODEL, events=(refuting_event(_FITS, words, outcome=outcome),))


def _flowing(check: str, outcome: str) -> Recording:
    return Recording(structure=_MODEL, events=(refuting_event(check, "of 64 rows, 90%", outcome=outcome, rows=64.0),))


def _noisy(outcome: str) -> Recording:
    words = "where t is largest, noise is 18% of x, and data the rest"
    return Recording(
        structure=_MODEL,
        events=(refuting_event("noise_is_alone_at_its_last_level", words, outcome=outcome, share=0.18),),
    )


def _looped(outcome: str) -> Recording:
    words = "cell (GRUCell) was called 20 times in one step"
    event = refuting_event("a_state_is_carried", words, outcome=outcome, calls=20)
    return Recording(structure=_MODEL, events=(event,))


@rule(
    "formula-error",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_optional=True,
    fires_on=(
        _tried("broken"),
        _noisy("broken"),
        _looped("broken"),
        *(_flowing(name, "broken") for name in _OF_THE_FLOW),
    ),
    silent_on=(
        _tried("held"),
        _noisy("held"),
        _looped("held"),
        *(_flowing(name, "held") for name in _OF_THE_FLOW),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report an expression of the program that is not the formula of the value that it names.

    The probe reads the script and the modules beside it as the first step begins. It knows a few formulas by the names
    that everybody gives their parts: a standard deviation is `exp(0.5 * logvar)`, the target of twin critics the
    smaller of both, the surrogate of a policy the smaller of two, returns and advantages are summed from the end,
    scores of attention are divided by the root of their width, each part of a block is added to what came in, a slow
    copy of a network keeps nearly all of itself, weights of classes fall with their counts, gradients are clipped
    between their pass and the step, of twins `q1` and `q2` the second is not asked for by the name of the first, and
    pictures whose sides have names are not mirrored. An expression that has these names and another form is reported
    with its line.

    Where the names are wrong and the formula is right, rename them.

    Of a model that learns the noise in its input at many levels, the noise itself is looked at in the batches of steps
    1 and 25. A sampler starts from normal noise alone; the model must have met that at one end of its levels.

    `total[index] += values`, `scatter` and `index_copy` keep one of several values for a place. Where an index of a
    copy of the model names several places more than once, and the values differ, that is reported with the line.

    A recurrent cell that each of two steps calls in a loop, with a state of zeros every time, is reported as well.

    Codes that are picked from a table by their distance must be near to what they are picked for. With one token at
    all positions, the scores of self-attention must not differ with the position of the query alone, or of the key.
    """
    del memory
    for event in refuted(context, *_VALUES):
        consequence, advice = _VALUES[str(event.data.get("check"))]
        yield refutation(
            context,
            event,
            consequence=consequence,
            advice=advice,
            severity="warning",
            confidence=0.9,
        )
    for event in refuted(context, _FITS):
        yield refutation(
            context,
            event,
            consequence="the program does something else than its names say",
            advice="correct the line; if its names are wrong and what it does is right, rename them",
            metric="",
            severity="warning",
            confidence=0.8,
        )
