"""Masks, weights, settings and layers that the program has and does not use."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.lowered_findings import asked
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_READ, _USED, _REACHES = "values_are_read", "results_are_used", "outputs_reach_a_loss"


def _tried(outcome: str, check: str = _READ, leftovers: int = 0) -> Recording:
    words = "mask, a value of masked_loss (train.py:41), is read by nothing"
    return Recording(
        structure=_MODEL, events=(refuting_event(check, words, outcome=outcome, values=1, leftovers=leftovers),)
    )


@rule(
    "unused-value",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_optional=True,
    fires_on=(_tried("broken"), _tried("broken", leftovers=1), _tried("broken", _USED), _tried("broken", _REACHES)),
    silent_on=(_tried("held"), _tried("held", _USED), _tried("held", _REACHES)),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a mask, a weight, the end of an episode, a setting, a layer or an update that the program never uses.

    Most of what is lost from a training leaves a trace in its text: the mask is still computed, the end of the episode
    still unpacked, the temperature still an argument, the function that moves the target still defined, but nothing
    reads it any more. The probe reads the script and the modules beside it as the first step begins, and looks for
    names that are given a value and read nowhere. Only names whose words say what the value is for count: masks,
    lengths, weights, ends of episodes, orders of samples, terms of a loss, settings such as `gamma` or `temperature`,
    layers that a module keeps, and functions that update, mask, clip, normalise or initialise; and a changed copy whose
    original goes on. Files with a dozen modules are libraries, in which much is left over for others. Settings, and
    values in modules beside the script, are left over in many public repositories that are fine: where nothing else is
    unread, the rule asks. A method that takes the same as a method of another class, which could stand in its place,
    may take what only the other one needs.

    The same is said of a result that is dropped: `scores.masked_fill(seen, -inf)` as a statement leaves `scores` as it
    is, `net.state_dict().update(state)` changes a dictionary that nobody keeps, `p.data.clamp(-c, c)` clips nothing,
    and `optimizer.step` without parentheses is no step.

    A module may make a value of the shape of its input, and a term of the loss beside it, as a layer of codes does. If
    in steps 1 and 25 no loss reaches that value, but one reaches the input past the module, the module has no part in
    what follows.

    To tell the rule that a value is left unused on purpose, let its name begin with an underscore.
    """
    del memory
    for event in refuted(context, _REACHES):
        yield refutation(
            context,
            event,
            consequence="what follows is trained without what the module does",
            advice="give the first of what the module returns to what follows, in place of the module's input",
            severity="warning",
            confidence=0.9,
        )
    for event in refuted(context, _READ, _USED):
        is_result = event.data.get("check") == _USED
        found = refutation(
            context,
            event,
            consequence="what it is for does not happen",
            advice="assign the result, or call the form that works in place, whose name ends in an underscore"
            if is_result
            else "use it where it belongs; if it is left over, delete it, or let its name begin with an underscore",
            metric="",
            severity="warning",
            confidence=0.8,
        )
        are_leftovers = found.evidence.get("leftovers", 0.0) == found.evidence.get("values", -1.0)
        yield asked(found, f"{event.data.get('counterexample')}: is it left over?") if are_leftovers else found
