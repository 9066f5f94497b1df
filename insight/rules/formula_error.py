"""Expressions of a program that are not what their names say."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_FITS = "values_fit_their_names"


def _tried(outcome: str) -> Recording:
    words = "train.py:41: std = logvar.exp() is the variance"
    return Recording(structure=_MODEL, events=(refuting_event(_FITS, words, outcome=outcome),))


@rule(
    "formula-error",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_optional=True,
    fires_on=(_tried("broken"),),
    silent_on=(_tried("held"),),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report an expression of the program that is not the formula of the value that it names.

    The probe reads the script and the modules beside it as the first step begins. It knows a few formulas by the names
    that everybody gives their parts: a standard deviation is `exp(0.5 * logvar)`, the target of twin critics the
    smaller of both, the surrogate of a policy the smaller of two, returns and advantages are summed from the end,
    scores of attention are divided by the root of their width, and of twins `q1` and `q2` the second is not asked for
    by the name of the first. An expression that has these names and another form is reported with its line.

    Where the names are wrong and the formula is right, rename them.
    """
    del memory
    for event in refuted(context, _FITS):
        yield refutation(
            context,
            event,
            consequence="the model is trained on another value than the one that is named",
            advice="correct the expression; if its names are wrong and the formula is right, rename them",
            metric="",
            severity="warning",
            confidence=0.8,
        )
