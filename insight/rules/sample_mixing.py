"""Samples of a batch that change each other's outputs."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _PLACE = "samples_are_independent", "answers_do_not_depend_on_the_row"
_NORMALISED = "vectors_are_normalised_one_by_one"
_OVER_SAMPLES = refuting_event(_NORMALISED, "the loss multiplies u by the transpose of v, and divides them by norms")


def _tried(outcome: str, occasion: int = 2) -> Recording:
    words = "in evaluation mode, changing sample 0 alone moved the outputs of 7 of the other 7 samples"
    event = refuting_event(_CHECK, words, outcome=outcome, occasion=occasion, moved=7, samples=8)
    return Recording(structure=_MODEL, events=(event,))


def _placed(occasion: int) -> Recording:
    words = "with the 8 samples of the batch in reverse order, the answer for the same sample is another one, by 0.3"
    return Recording(structure=_MODEL, events=(refuting_event(_PLACE, words, occasion=occasion, moved=0.3),))


@rule(
    "sample-mixing",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    fires_on=(_tried("broken"), _placed(2), Recording(structure=_MODEL, events=(_OVER_SAMPLES,))),
    silent_on=(
        Recording(structure=_MODEL, events=(refuting_event(_NORMALISED, "", outcome="held"),)),
        _tried("held"),
        _tried("open"),
        _tried("broken", 1),
        _placed(1),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report samples whose outputs depend on other samples of their batch.

    The probe changes the first sample of the batch of step 25 and calls a copy of the model in evaluation mode, in
    which batch normalisation mixes nothing. Graphs, square outputs and batches that are the same at every step are left
    out. The usual reason is an operation along the wrong axis: a softmax, a mean or attention over the batch instead
    of the positions (`batch_first`), or a reshape that swaps both.

    Where samples are independent, they get the same answers in any other order too. If they do not, something is added
    for each row of the batch, such as a positional encoding that is indexed along the wrong axis.

    Of a loss that compares the vectors of all pairs of samples it is a fact if their norms run over the samples.
    """
    del memory
    for event in refuted(context, _NORMALISED):
        yield refutation(
            context,
            event,
            consequence="the scores are no cosines, and each depends on which others are in the batch",
            advice="normalise along the features: dim=-1 for (samples, features)",
        )
    for event in refuted(context, _CHECK, occasion=2):
        yield refutation(
            context,
            event,
            consequence="what the model answers for a sample depends on which others are beside it",
            advice="look for an operation along axis 0: softmax, mean, normalisation or attention over the batch, "
            "batch_first that does not fit the data, and a view or reshape that should be a transpose",
        )
    for event in refuted(context, _PLACE, occasion=2):
        yield refutation(
            context,
            event,
            consequence="what the model answers for a sample depends on its place in the batch",
            advice="look for what is added along axis 0: a positional encoding laid out for (time, batch, features), a "
            "state or a table that is indexed by the row",
            severity="warning",
            confidence=0.9,
        )
