"""A hand-written backward that is not the derivative of its forward, and derivatives that a loss holds constant."""

from collections.abc import Iterator
from dataclasses import replace

from ...storage import Event, Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import at_two_occasions, refutation, refuted, refuted_twice, refuting_event
from ..recording import Recording, chain
from ..rule import BACKWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _GRAPH = "backward_is_the_derivative", "derivatives_have_a_graph"
_SAY, _DRAWN = "answers_in_a_loss_depend_on_what_it_trains", "drawn_values_carry_gradients"
_STRAIGHT = "straight_through_steps_pass_gradients"
_CONSTANT = "the loss adds a derivative, computed without create_graph=True, to one that was computed with it"
_WORDS = "along a random direction of input 0 of Square, its backward gives a derivative of 1, and differences give 2"


@rule(
    "wrong-backward",
    needs=("event/check",),
    phase=BACKWARD,
    is_fact=True,
    is_optional=True,
    memory=set,
    fires_on=(
        Recording(structure=_MODEL, events=(refuting_event(_CHECK, _WORDS, backward=1.0, difference=2.0),)),
        # the time derivative of a differential equation is a constant; beside the output alone it is a question
        Recording(
            structure=_MODEL, events=at_two_occasions(refuting_event(_GRAPH, _CONSTANT, is_question=0.0)), steps=2
        ),
        Recording(
            structure=_MODEL, events=at_two_occasions(refuting_event(_GRAPH, _CONSTANT, is_question=1.0)), steps=2
        ),
        # an action that was drawn without a gradient
        Recording(structure=_MODEL, events=(refuting_event(_SAY, "no gradient comes through it"),)),
        Recording(structure=_MODEL, events=(refuting_event(_DRAWN, "linear gets a draw without a gradient"),)),
        Recording(structure=_MODEL, events=(refuting_event(_STRAIGHT, "the gradients cancel", elements=8.0),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(refuting_event(_DRAWN, "", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_STRAIGHT, "", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_SAY, "no gradient comes through it", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_GRAPH, _CONSTANT, is_question=0.0),)),
        Recording(structure=_MODEL, events=(refuting_event(_CHECK, "", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_CHECK, "", outcome="open"),)),
    ),
)
def check(context: StepContext, memory: set[tuple[str, str, str]]) -> Iterator[Finding]:
    """Report a gradient that is not the derivative of the loss.

    A `torch.autograd.Function` may have a backward that disagrees with differences of its forward.

    `mindscope doctor` calls each function that the program has written in float64 with the inputs of a step, and
    compares its backward with central differences along a random direction. Functions that return their input
    (reversals and scales of gradients) and those that differ only where the forward is flat (rounding, signs, clamps)
    are meant to be so, and left out.

    A loss may add up derivatives by inputs, as those of a differential equation. What `torch.autograd.grad` gives
    without `create_graph=True` is a constant for the optimizer. At steps 1 and 25 the probe follows such constants to
    the loss: beside derivatives with a graph, or as a whole term, they are a warning; beside the network's output
    alone, a question. Weights of terms, adversarial inputs and targets made by another network are left out.

    Where networks have optimizers of their own, a loss may ask one in order to train the other, as an actor's asks its
    critic. If that answer is a term of its own, which reaches no parameter that the loss trains, it does nothing; nor
    does the answer of a critic whose parameters are frozen for the moment and whose input has no gradient.

    A model may draw around its own answers, as a variational autoencoder draws its code. What `sample()` and
    `torch.normal` give to a layer has no gradient, so the encoder learns nothing from what is made of it.

    What a model rounds, or looks up as the nearest code, has no gradient either. `x + (y - x).detach()` gives x that of
    the choice y. Where the detach is missing, or both are exchanged, x learns nothing from what follows.
    """
    for event in refuted_twice(context, memory, _GRAPH):
        yield _of_a_constant(context, event)
    for event in refuted(context, _DRAWN):
        yield refutation(
            context,
            event,
            consequence="the layers before are trained by the other terms of the loss only",
            advice="draw with rsample(), or write mean + deviation * torch.randn_like(mean)",
            metric="gradient/l2_norm",
            severity="warning",
            confidence=0.95,
        )
    for event in refuted(context, _STRAIGHT):
        yield refutation(
            context,
            event,
            consequence="what lies before is trained by the other terms of the loss only",
            advice="write x + (y - x).detach(), where y is the rounded value or the nearest code that was made of x",
            metric="gradient/l2_norm",
            severity="warning",
            confidence=0.95,
        )
    for event in refuted(context, _SAY, occasion=2):
        yield refutation(
            context,
            event,
            consequence="whatever it answers, the step is the same",
            advice="draw with rsample() instead of sample(), and look for detach(), no_grad() and conversions to NumPy "
            "between the two",
            metric="scalar/loss",
            severity="warning",
            confidence=0.95,
        )
    for event in refuted(context, _CHECK):
        yield refutation(
            context,
            event,
            consequence="the weights before it get a gradient that is not that of the loss",
            advice="derive the backward again, and try torch.autograd.gradcheck with inputs in float64",
            metric="gradient/l2_norm",
        )


def _of_a_constant(context: StepContext, event: Event) -> Finding:
    found = refutation(
        context,
        event,
        consequence="no step takes into account how the weights move it",
        advice="pass create_graph=True to torch.autograd.grad for every derivative that enters the loss; "
        "retain_graph=True only keeps the graph of the output",
        metric="scalar/loss",
        severity="warning",
        confidence=0.95,
    )
    measured = event.data.get("numbers")
    if not isinstance(measured, dict) or measured.get("is_question") != 1.0:
        return found
    words = f"{event.data.get('counterexample')}; is that meant?"
    return replace(found, severity="info", confidence=0.5, explanation=words)
