"""Parameters that require gradients and belong to no optimizer."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod, sqrt

from ...storage import Event, Finding, Json, ParameterInfo, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..event_fields import as_number, number
from ..failure import place
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.lowered_findings import withdrawn
from ..recording import Recording, chain
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule

_LAYERS = ("one:Dense", "two:Dense", "three:Dense")


#: Records with a gradient after which the parameter is reported, so that a second optimizer has stepped by then.
_WAITED = 2
#: Share of the range of a fresh weight that it fills at least, rounding beyond it, relative error of its deviation, and
#: values from which on these tell. Our choice.
_FILLED, _ROUNDING, _EVEN, _MANY = 0.97, 1e-5, 0.06, 128
_CHECK = "reached_parameters_are_stepped"
_UNHELD = "gradients reach 4 tensors of actor (0.weight, ...), no optimizer holds them, and none has moved"
_REACHED = {f"{site}.weight gradient/l2_norm": (1.0,) * 4 for site in ("one", "two", "three")}


@dataclass(slots=True)
class _ParameterNotInOptimizerState:
    """The checked structure, the parameters outside, and how many records reached them; and what was reported.

    Args:
        drawn: By the weights of the first step, whether they are as a layer draws them when it is made.
    """

    checked: ModelIndex | None = None
    outside: tuple[ParameterInfo, ...] = ()
    waited: int = 0
    reported: dict[str, Finding] = field(default_factory=dict)
    drawn: dict[str, bool] = field(default_factory=dict)


def _skip_window(lookahead: Lookahead, memory: _ParameterNotInOptimizerState) -> SkipWindow | None:
    is_done = memory.checked is lookahead.context.model and (not memory.outside or memory.waited > _WAITED)
    return lookahead.whole if is_done else None


_EMPTY: dict[str, Json] = {
    "type": "ValueError",
    "message": "optimizer got an empty parameter list",
    "unlisted": "Net.layers is a list of 3 modules, so the model has none of their 6 parameters; make it a ModuleList",
}
_DRAWN: dict[str, Json] = {"mean": 0.0, "std": 0.0834, "min": -0.144, "max": 0.144, "fan_in": 48, "shape": [48, 48]}
#: A head that is trained on two layers whose weights are as they were drawn.
_HEAD = Recording(
    _REACHED,
    chain(*_LAYERS, not_stepped=[f"{site}.{name}" for site in ("one", "two") for name in ("weight", "bias")]),
    tuple(Event("initial_weight", 0, f"{site}.weight", data=_DRAWN) for site in ("one", "two")),
)


@rule(
    "parameter-not-in-optimizer",
    needs=("structure",),
    triggers=(NEW_STRUCTURE, "gradient", "event/check", "event/initial_weight", "event/exception"),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_ParameterNotInOptimizerState,
    asks="intent",
    fires_on=(
        Recording(_REACHED, chain(*_LAYERS, not_stepped=["two.weight"])),
        # a network beside the watched one
        Recording(structure=chain(*_LAYERS), events=(refuting_event(_CHECK, _UNHELD),)),
        _HEAD,
        Recording(structure=chain(*_LAYERS), events=(Event("exception", 0, data=_EMPTY),)),
    ),
    silent_on=(
        Recording(structure=chain(*_LAYERS), events=(refuting_event(_CHECK, "", outcome="held"),)),
        # the model's own parameters beside copies that are trained: no gradient comes to them
        Recording(
            {"two.weight gradient/l2_norm": (None,) * 6, "one.weight gradient/l2_norm": (1.0,) * 6},
            chain(*_LAYERS, not_stepped=["two.weight"]),
        ),
        # a hand-written update moves it
        Recording(_REACHED | {"two.weight update/l2_norm": (0.1,) * 4}, chain(*_LAYERS, not_stepped=["two.weight"])),
        Recording(structure=chain(*_LAYERS)),
        Recording(structure=chain(*_LAYERS, not_stepped=["two.weight"]), config={"expected_frozen": ["two*"]}),
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"], not_stepped=["two.weight"])),
    ),
)
def check(context: StepContext, memory: _ParameterNotInOptimizerState) -> Iterator[Finding]:
    """Report parameters that get gradients but belong to no watched optimizer.

    The rule fires after two records in which gradients reached the parameter and nothing moved it. If that is most of
    the model, in whole layers, as in training a new head on fixed features, it is a question, unless these weights are
    still as torch's layers draw them, even within 1 / sqrt(fan_in). Without a watched optimizer there is nothing to
    compare with; a parameter that shares its memory with a stepped one is stepped with it; and when an optimizer takes
    the parameter later, the finding becomes a notice. `expected_frozen` in the run's configuration declares what is
    left out on purpose. Make the optimizer after the whole model is built, and pass it all parameters.

    Of networks and parameters beside the watched model, the probe follows the losses of steps 1 and 25 to what they
    reach: what no optimizer of the process holds, and nothing has moved in between, is reported.
    """
    model = context.model
    for event in context.events("exception"):
        if (found := _without_any(context, event)) is not None:
            yield found
    for event in refuted(context, _CHECK, occasion=2):
        found = refutation(
            context,
            event,
            consequence="they keep their first values",
            advice="pass the parameters of every network that is to be trained to an optimizer; keep layers in a "
            "ModuleList, since a plain list hides them from parameters(); where they are meant to stay, set "
            "requires_grad to False or call them inside torch.no_grad()",
            metric="",
            severity="warning",
            confidence=0.9,
        )
        yield replace(found, site=str(event.data.get("subject")))
    memory.drawn |= {event.site: _is_as_drawn(event) for event in context.events("initial_weight")}
    if memory.checked is not model:
        if memory.checked is not None:
            memory.drawn.clear()  # what was trained until now is as it was drawn no more
        memory.checked, memory.waited, memory.outside = model, 0, _outside(model)
        yield from _taken(context, memory)
    if not memory.outside or memory.waited > _WAITED:
        return
    reached = _reached(context)
    if not reached:
        return
    memory.waited += 1
    memory.outside = tuple(item for item in memory.outside if item.site in reached)
    if memory.waited == _WAITED:
        memory.waited += 1
        yield from _report(context, memory)


def _without_any(context: StepContext, event: Event) -> Finding | None:
    """Return the finding of an optimizer that was made without parameters, since plain lists hide all networks."""
    unlisted = str(event.data.get("unlisted", ""))
    if not unlisted:
        return None
    return context.finding(
        event.site,
        "",
        {"step": event.step, "line": number(event, "line")},
        explanation=f"an optimizer was made without any parameter, which ended the program{place(event)}: {unlisted}",
        advice="keep layers in a ModuleList or a ModuleDict; parameters() does not look into plain lists",
    )


def _is_as_drawn(event: Event) -> bool:
    """Return whether a weight is even within 1 / sqrt(fan_in), as torch makes it; a trained one goes beyond that."""
    shape = event.data.get("shape")
    size = prod(as_number(one, 0.0) for one in shape) if isinstance(shape, list) else 0
    bound = 1.0 / sqrt(max(number(event, "fan_in"), 1.0))
    farthest = max(-number(event, "min"), number(event, "max"))
    is_filled = _FILLED * bound <= farthest <= (1.0 + _ROUNDING) * bound
    return size >= _MANY and is_filled and abs(number(event, "std") * sqrt(3.0) / bound - 1.0) <= _EVEN


def _outside(model: ModelIndex) -> tuple[ParameterInfo, ...]:
    """Return the parameters that require a gradient and are in no optimizer."""
    if not model.structure.optimizers:
        return ()
    parameters = model.parameters.values()
    stepped = {item.storage for item in parameters if item.group is not None}
    stepped = (
        stepped if len({item.storage for item in parameters}) > 1 else set()
    )  # all alike: sharing was not recorded
    return tuple(
        item
        for item in parameters
        if item.requires_grad and item.group is None and item.storage not in stepped and model.is_trainable(item)
    )


def _taken(context: StepContext, memory: _ParameterNotInOptimizerState) -> Iterator[Finding]:
    """Yield, as notices, the findings about parameters that an optimizer holds now."""
    outside = {item.site for item in memory.outside}
    for site, found in list(memory.reported.items()):
        if not any(name == site or name.startswith(f"{site}.") for name in outside):
            del memory.reported[site]
            words = f"no watched optimizer held {display_site(site)} at first; one does since step {context.step}"
            yield withdrawn(found, context, words)


def _reached(context: StepContext) -> set[str]:
    """Return the parameters with a gradient in this record that no update moved; empty where none was recorded."""
    gradient, update = context.table("gradient"), context.table("update")
    if gradient is None or context.record.skipped:
        return set()
    moved = set() if update is None else _above_zero(update)
    return _above_zero(gradient) - moved


def _above_zero(table: Table) -> set[str]:
    norms = table.column("l2_norm")
    return {site for row, site in enumerate(table.rows.sites) if table.present[row] and norms[row] > 0}


def _report(context: StepContext, memory: _ParameterNotInOptimizerState) -> Iterator[Finding]:
    model = context.model
    total = sum(prod(item.shape) for item in model.parameters.values())
    layers = {model.owner(item.site) for item in model.parameters.values()}
    left = {model.owner(item.site) for item in memory.outside}
    held = {model.owner(item.site) for item in model.parameters.values() if item.group is not None}
    has_head = any(item.group is not None and len(item.shape) > 1 for item in model.parameters.values())
    has_head &= max(map(model.order, held), default=-1) >= max(map(model.order, left), default=-1)  # which comes last
    is_most = has_head and 2 * len(left) > len(layers) and not left & held  # a layer that is split is no old layer
    known = [memory.drawn[item.site] for item in memory.outside if item.site in memory.drawn]
    is_new = is_most and bool(known) and all(known)
    is_question = is_most and not is_new
    for site, items in list(model.gather(memory.outside).items())[: 1 if is_most else 8]:
        if site in memory.reported:
            continue
        memory.reported[site] = context.finding(
            site,
            "",
            {
                "parameters": len(items),
                "values": sum(prod(item.shape) for item in items),
                "values_of_the_model": total,
            },
            severity="info" if is_question else "warning",
            first_step=max(context.step - _WAITED + 1, 0),
            explanation=f"no watched optimizer holds {len(items)} parameter{'s' * (len(items) > 1)} of "
            f"{display_site(site)}, although gradients reach them; they keep their values"
            + ("; most of the model is left out, as in training a new head" * is_most)
            + ("; is that meant?" * is_question)
            + (", and its weights are as the layers have drawn them: nothing was trained or loaded" * is_new),
            advice="make the optimizer after the whole model is built, and pass it all parameters; if another "
            f"optimizer steps them, watch that one too; to keep them fixed, declare expected_frozen: [{site!r}]",
            confidence=0.8 if is_new else 0.5 if is_most else 0.95,
        )
        yield memory.reported[site]
