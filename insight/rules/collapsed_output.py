"""A model that has come to answer the same for every sample."""

from collections.abc import Iterator
from dataclasses import replace

from ...storage import Finding
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _CODES = "outputs_differ", "codes_differ_from_the_prior"
#: The first occasion, step 200, at which equal outputs mean something: a fresh model may begin with them.
_OCCASION = 3


def _tried(*outcomes: str) -> Recording:
    words = "for 32 different samples the outputs differ by 1e-06 only, of a root mean square of 0.4"
    events = (
        replace(refuting_event(_CHECK, words, outcome=outcome, occasion=step + 1, spread=1e-6, size=0.4), step=step)
        for step, outcome in enumerate(outcomes)
    )
    return Recording(structure=_MODEL, events=tuple(events), steps=len(outcomes))


def _coded(outcome: str) -> Recording:
    words = "in each dimension of the code the variance is 1, as in the prior, within 0.004"
    return Recording(structure=_MODEL, events=(refuting_event(_CODES, words, outcome=outcome, furthest=0.004),))


_ALIKE = (
    "in self-supervised training check the stop-gradient, the predictor and the negatives; in a GAN the generator's "
    "loss; else look for the layer after which all samples are alike, and for a loss whose best answer is a constant"
)
_ACTING = (
    "check the sign of the actor's loss: one that lowers what its critic promises drives all actions to a bound; then "
    "the scale of its inputs and rewards, and its exploration"
)


@rule(
    "collapsed-output",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    memory=set,
    is_optional=True,
    fires_on=(_tried("held", "held", "broken"), _tried("held", "held", "held", "broken"), _coded("broken")),
    silent_on=(
        _coded("held"),
        _tried("broken", "broken", "held"),
        _tried("held", "held", "held", "held"),
        _tried("broken", "broken"),
    ),
)
def check(context: StepContext, memory: set[str]) -> Iterator[Finding]:
    """Report a model whose outputs for different samples are the same, at step 200 or 1000.

    The probe calls a copy of the model with the batch of the step, in evaluation mode. The outputs count as equal if
    their spread between samples is below a thousandth of their size, or of a loss that compares directions, if their
    directions differ by less than a twentieth. So end self-supervised models that collapse
    (Grill et al. 2020, "Bootstrap your own latent"; Chen & He 2021, "SimSiam"), generators that ignore their noise
    (mode collapse), decoders that ignore their code, and classifiers whose signal has died on the way.

    A variational autoencoder has collapsed if all dimensions of its code are the prior: at three looks, from step 80
    on, their variances, read from the divergence in the loss, are one within 5 %, and have come nearer to one than they
    were (Lucas et al. 2019, "Don't blame the ELBO").
    """
    for event in refuted(context, _CODES):
        if _CODES not in memory:
            memory.add(_CODES)
            yield refutation(
                context,
                event,
                consequence="the code tells the decoder nothing (posterior collapse)",
                advice="give the divergence less weight, or raise it slowly from zero; take the sum of both terms over "
                "all elements of a sample, not the mean of one beside the sum of the other",
                metric="scalar/loss",
                severity="warning",
                confidence=0.9,
            )
    for event in refuted(context, _CHECK):
        if number(event, "occasion") < _OCCASION or event.site in memory:
            continue
        memory.add(event.site)
        yield refutation(
            context,
            event,
            consequence="the model has collapsed to one answer",
            advice=_ACTING if context.kind.name in ("policy", "value") else _ALIKE,
            severity="warning",
            confidence=0.9,
        )
