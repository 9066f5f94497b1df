"""Masked positions that have an effect on the others."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _MORE = "masked_positions_have_no_effect", "more_padding_has_no_effect"


def _tried(outcome: str) -> Recording:
    words = "other tokens of x at padded positions, with the same mask, moved outputs that are not padded by up to 0.3"
    return Recording(structure=_MODEL, events=(refuting_event(_CHECK, words, outcome=outcome, padded=12),))


def _longer(outcome: str, *, is_told: bool) -> Recording:
    words = "3 more padded positions moved the outputs of rows of x that are padded already by 0.4 of their spread"
    event = refuting_event(_MORE, words, outcome=outcome, moved=0.4, is_told=float(is_told))
    return Recording(structure=_MODEL, events=(event,))


@rule(
    "padding-attended",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    memory=list,
    fires_on=(_tried("broken"), _longer("broken", is_told=True)),
    silent_on=(_tried("held"), _tried("open"), _longer("held", is_told=True), _longer("broken", is_told=False)),
)
def check(context: StepContext, memory: list[int]) -> Iterator[Finding]:
    """Report a mask of padding that the model does not heed.

    A model that gets a mask beside its tokens is tried with other tokens there: the probe replaces the tokens at padded
    positions and leaves the mask as it is; outputs at the other positions must not move. They do if the mask is
    inverted (True means "leave out" in `torch.nn.MultiheadAttention` and "keep" in `scaled_dot_product_attention`), has
    the wrong value, is added to the wrong axis, or is not used by a mean over positions.

    A model that gets a mask or the lengths of its rows is tried with three more padded positions in all rows, too:
    outputs of rows that are padded already must not move by more than a twentieth of their spread. If they move, and
    other tokens at the positions that are no padding move nothing, the mask is inverted, whoever makes it. So it is if
    just the rows without padding have outputs that are not finite: nothing is left of them. Wherever the mask is made,
    the probe moves what an embedding makes of the padded positions, and then what it makes of every second real one:
    where the other real positions feel padding, and each other not at all, the mask is inverted.
    """
    for event in refuted(context, _CHECK, _MORE):
        numbers = event.data.get("numbers")
        is_more = event.data.get("check") == _MORE
        if memory or (is_more and not (isinstance(numbers, dict) and numbers.get("is_told"))):
            continue
        memory.append(event.step)
        yield refutation(
            context,
            event,
            consequence="the mask does not keep padding out",
            advice="check what True means for the layer that gets the mask, that masked scores become minus infinity "
            "before the softmax, that a mean over positions divides by the number of real ones, and that recurrent "
            "layers get packed sequences",
            severity="warning" if is_more else "error",
        )
