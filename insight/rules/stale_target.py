"""Targets that are wrong in value learning or of a teacher: a copy that does not follow, or a mask upside down."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...storage import Event, Finding, OptimizerInfo
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK = "copy_follows_its_network"
_NEXT = "next_states_are_others"
_BOOTSTRAP = "next_states_count_unless_an_episode_ends"
_TWO = replace(_MODEL, optimizers=(OptimizerInfo("Adam"), OptimizerInfo("Adam")))
_VALUE = Event("training_kind", 0, data={"name": "value"})
#: Words by which a copy is called that acts, and is renewed after some updates.
_RENEWED: Final = frozenset({"old", "behaviour", "behavior"})


#: What follows from what is known of a copy, and what to do; the last where nothing else is.
_SAID: Final = {
    "unasked": (
        "no target is made of what it answers",
        "ask the copy for the value of the next state, and the network for that of the state",
    ),
    "backwards": ("the trained network is pulled back", "exchange the arguments of the soft update"),
    "astray": (
        "what it answers is neither what the network says nor what it said before",
        "average the copy with the network that it follows, not with itself",
    ),
    "hardly": (
        "what it teaches is nearly what it was at the start",
        "raise the rate of the moving average: 0.005, or a momentum of 0.99 to 0.996, for a run this short",
    ),
    "averaged": (
        "what is evaluated with it is nearly the network before its training",
        "lower the momentum, 0.99 to 0.999 for a run this short, or let it grow with the steps: "
        "min(0.9999, (1 + step) / (10 + step))",
    ),
    "statistics": (
        "in evaluation mode it normalises with the means and variances of the start",
        "copy the buffers as well, from model.buffers(); torch's AveragedModel does with use_buffers=True",
    ),
    "alike": (
        "it is no target that stays while the network learns",
        "copy the weights every few hundred steps only, or by a moving average with a small rate",
    ),
    "": (
        "if it is to follow, nothing does that",
        "call the update of the copy after each step of the optimizer; if it is a reference, do nothing",
    ),
}


def _tried(words: str, *events: Event, **numbers: float) -> Recording:
    return Recording(
        structure=_MODEL, events=(*events, refuting_event(_CHECK, words, occasion=2, outcome="broken", **numbers))
    )


def _old(name: str) -> Recording:
    event = refuting_event(_CHECK, f"{name}, a copy of policy, has not moved in 1450 steps", never=1.0, ended=1.0)
    kind = Event("training_kind", 0, data={"name": "policy"})
    return Recording(structure=_MODEL, events=(kind, replace(event, data={**event.data, "subject": name})))


_MASKED = refuting_event(_BOOTSTRAP, "the value of the next state is multiplied by zero for 97%", share=0.03)
_SELF = refuting_event(_NEXT, "target was given the very batch of states that q was given", looks=2.0)
_UNASKED = "q_target is kept near q, and no part of it was called in 3 steps"
_ALIKE = "as a step began, target was critic itself, at each of 3 looks"


@rule(
    "stale-target",
    needs=("record",),
    triggers=("event/check",),
    phase=OPTIMIZER,
    is_fact=True,
    is_optional=True,
    asks="intent",
    fires_on=(
        _tried("between two steps critic was moved by 0.01 of the way to target", backwards=0.01),
        _tried("teacher, which follows student, has gone 0.2% of its way so far", hardly=0.002),
        _tried("shadow, the average of net, has gone 1.7% of its way in 350 steps", averaged=0.017, ended=1.0),
        _tried("k, which was q at first, has gone 6.0 times as far as that ever has", astray=6.0),
        _tried("the running statistics of ema's batch norms are still those of the first look", statistics=12.0),
        _tried(_ALIKE, _VALUE, alike=1.0),
        _tried(_UNASKED, _VALUE, unasked=3.0),
        Recording(structure=_TWO, events=(refuting_event(_CHECK, "q_target has not moved", never=1.0),)),
        Recording(structure=_MODEL, events=(_VALUE, _MASKED)),
        Recording(structure=_MODEL, events=(_VALUE, _SELF)),
        _tried("target, a copy of q, has not moved in 1450 steps", _VALUE, never=1.0, ended=1.0),
        _old("policy_old"),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(refuting_event(_CHECK, "", outcome="held", moved=0.3),)),
        # averaged weights that are only evaluated
        _tried(_UNASKED, unasked=3.0),
        # a mask over a teacher's answers
        Recording(structure=_MODEL, events=(_MASKED,)),
        # a teacher that sees what its student sees
        Recording(structure=_MODEL, events=(_SELF,)),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a copy of a trained network that the training calls and that follows it wrongly.

    The probe finds networks with the parameters of a trained one that no optimizer holds, and looks at both at steps 1,
    25, 200 and 1000. Moved the wrong way: the trained network is pulled to the copy, which stays, as where arguments of
    a soft update are exchanged. Gone astray: an average of what a network was goes no farther from the start than that
    did, and the copy has gone three times as far, as where it is averaged with itself. Hardly moving: after 200 steps
    the copy has gone less than 2 % of its network's way, so it still answers as at the start. In value learning, a copy
    that is the network itself whenever a step begins is no target that stays (Mnih et al. 2015, "Human-level control";
    Lillicrap et al. 2016, arXiv:1509.02971, section 3). A copy that has never moved may be a reference that is meant to
    stay, and is a question; where actor and critic have optimizers of their own, targets follow by an average in every
    step, and it is a warning, as in value learning where it had not moved when the training ended, and in policy
    gradients where its name is that of the old policy, which acts. Nothing that follows
    is of use if it is not called: in value learning, a copy that moves after its network and is never asked means that
    the target comes from the network itself. Averaged weights that only an evaluation asks are nobody's mistake, unless
    they have gone less than a fifth of their network's way as the training ends. From step 200 on, a copy whose
    weights follow and whose batch norms still have the running statistics of the first look is told as well.

    In reinforcement learning the probe also follows what networks answer without gradients to products with zeros and
    one other number. Where such a product is zero for two of three samples, the mask of episodes' ends is the wrong way
    round: the target takes over the value of the next state just where there is none. In value learning, a copy that is
    given the very batch of its network in each look values the state itself for the next one, as where a state is
    overwritten before it is stored.
    """
    del memory
    if context.kind.name in ("value", "policy"):
        for event in refuted(context, _BOOTSTRAP):
            yield refutation(
                context,
                event,
                consequence="targets hold hardly more than the reward of one step",
                advice="multiply by 1 - done, which is one while the episode goes on",
                metric="scalar/loss",
                severity="warning",
                confidence=0.85,
            )
    for event in refuted(context, _NEXT, occasion=2) if context.kind.name == "value" else ():
        found = refutation(
            context,
            event,
            consequence="the network learns what a state is worth from the same state",
            advice="ask the copy for the next state: store the state before the environment's step beside the one "
            "after it, and copy arrays that the environment writes into",
            metric="scalar/loss",
        )
        yield replace(found, site=str(event.data.get("subject")))
    for event in refuted(context, _CHECK):
        measured = event.data.get("numbers")
        told = set(measured) if isinstance(measured, dict) else set[str]()
        if "unasked" in told and context.kind.name != "value":
            continue
        words, advice = next(said for known, said in _SAID.items() if known in told or not known)
        is_sure = bool(told & {"backwards", "averaged", "hardly", "astray", "statistics"})
        is_sure |= bool(told & {"alike", "unasked"}) and context.kind.name == "value"
        is_sure |= "ended" in told and context.kind.name == "value"
        is_sure |= "never" in told and _has_averaged_targets(context)
        is_sure |= "ended" in told and context.kind.name == "policy" and _is_renewed(str(event.data.get("subject")))
        found = refutation(
            context,
            event,
            consequence=words + ("" if is_sure else "; is that meant?"),
            advice=advice,
            metric="",
            severity="warning" if is_sure else "info",
            confidence=0.9 if told & {"backwards", "averaged", "statistics"} else 0.7 if is_sure else 0.5,
        )
        yield replace(found, site=str(event.data.get("subject")))


def _is_renewed(site: str) -> bool:
    """Return whether a copy is called what the policy was before the last updates, and not a reference that stays."""
    return not _RENEWED.isdisjoint(site.lower().replace(".", "_").split("_"))


def _has_averaged_targets(context: StepContext) -> bool:
    """Return whether several optimizers step in turn networks that are no policies with a reference.

    Optimizers of which some rest may be those of trainings before, whose network is the reference of this one.
    """
    has_reference = context.kind.name in ("policy", "preference", "language_model")
    are_all_stepping = context.scalar("learner/stepped") is None
    return len(context.model.structure.optimizers) > 1 and not has_reference and are_all_stepping
