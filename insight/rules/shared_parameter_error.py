"""Tied weights that come apart, or are stepped twice."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...storage import Event, Finding, OptimizerInfo, ParameterInfo, Structure, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule

_OF_A_LIST = "modules_of_a_list_differ"
#: Parts that the words about an optimizer list.
_MOST_NAMED = 4
_MODEL = chain("embed:Embedding", "head:Linear")


def _with(*, storages: tuple[int, int] = (1, 2), more: tuple[tuple[int, int], ...] = ()) -> Structure:
    pairs = zip(_MODEL.parameters, storages, strict=True)
    parameters = tuple(replace(parameter, storage=at, more_groups=more) for parameter, at in pairs)
    return replace(_MODEL, parameters=parameters, optimizers=(OptimizerInfo("Adam"),) * 2)


@dataclass(slots=True)
class _SharedParameterErrorState:
    """The checked structure, and which parameters were reported.

    Args:
        began: The step in which the first optimizer was known; `early` how many were there a step later.
    """

    checked: ModelIndex | None = None
    began: int = -1
    early: int = 0
    reported: set[str] = field(default_factory=set)


@rule(
    "shared-parameter-error",
    needs=("structure",),
    triggers=("event/tie_broken", "event/check", NEW_STRUCTURE),
    phase=CONFIGURATION,
    memory=_SharedParameterErrorState,
    is_fact=True,
    fires_on=(
        Recording(structure=_with(), events=(Event("tie_broken", 0, "embed.weight", data={"sites": ["a", "b"]}),)),
        Recording(structure=_with(more=((1, 0),))),
        Recording(structure=_with(), events=(refuting_event(_OF_A_LIST, "net.py:4: [Block()] * 6 holds one Block"),)),
    ),
    silent_on=(
        Recording(structure=_with(), events=(refuting_event(_OF_A_LIST, "", outcome="held"),)),
        Recording(structure=_with()),
        Recording(structure=_with(storages=(1, 1))),
        Recording(
            structure=_with(storages=(1, 1)),
            events=(Event("shared_parameter", 0, "embed.weight", data={"sites": ["embed.weight", "head.weight"]}),),
        ),
    ),
)
def check(context: StepContext, memory: _SharedParameterErrorState) -> Iterator[Finding]:
    """Report tied weights that come apart, and parameters in several optimizer groups.

    Both are identities, not measurements: the memory address of the values, and membership in a group. An optimizer
    whose parameters are a trunk that two learners share, each with parameters of its own beside it, is a notice. One
    that joins later may replace an earlier one that no longer steps, so only its own groups are counted together. Tie
    weights again after a load or a conversion, and give each parameter to one group.

    Of the program's text it tells a list of one module that is multiplied, which holds one module several times.
    """
    for event in refuted(context, _OF_A_LIST):
        yield refutation(
            context,
            event,
            consequence="the network has the depth, and not the weights, that it seems to have",
            advice="make each module by itself: [Block() for _ in range(6)]; if the layers are to share their weights, "
            "call one module in a loop",
            metric="",
            severity="warning",
            confidence=0.8,
        )
    for event in context.events("tie_broken"):
        sites = event.data.get("sites")
        names = [str(site) for site in sites] if isinstance(sites, list) else [event.site]
        yield context.finding(
            event.site,
            "weight/l2_norm",
            {"parameters": len(names)},
            first_step=event.step,
            explanation=f"{' and '.join(names[:4])} shared one memory until step {event.step}; now each is trained "
            "on its own",
            advice="look for an assignment of a new Parameter, a conversion or a load after the weights were tied; "
            "tie them again before the optimizer is made",
        )
    model = context.model
    if memory.checked is model:
        return
    memory.checked = model
    _count_optimizers(context, memory)
    is_trunk = _is_trunk(model, memory.early)
    for item in model.parameters.values():
        times = _times_stepped(item, memory.early)
        if times > 1 and item.site not in memory.reported:
            memory.reported.add(item.site)
            yield context.finding(
                item.site,
                "update/l2_norm",
                {"groups": times},
                severity="info" if is_trunk else "error",
                confidence=0.5 if is_trunk else 0.95,
                explanation=f"{display_site(item.site)} is in {times} groups of the watched optimizers, so each "
                f"gradient steps it {times} times{_holders(item, model)}",
                advice="put each parameter into one group of one optimizer; collect parameters by identity, not by "
                "name",
            )


def _holders(item: ParameterInfo, model: ModelIndex) -> str:
    """Return words for the optimizers that hold the parameter, if they are several, and what else each steps."""
    numbers = dict.fromkeys(number for number, _ in item.every_group)
    kinds = model.structure.optimizers
    if len(numbers) < 2 or max(numbers) >= len(kinds):
        return ""
    words = []
    for number in numbers:
        heads = dict.fromkeys(
            other.site.partition(".")[0]
            for other in model.parameters.values()
            if any(at == number for at, _ in other.every_group)
        )
        listed = ", ".join(list(heads)[:_MOST_NAMED]) + ", ..." * (len(heads) > _MOST_NAMED)
        words.append(f"{kinds[number].kind} {number} (which steps {listed})")
    return f"; it is held by {' and by '.join(words)}"


def _is_trunk(model: ModelIndex, early: int) -> bool:
    """Return whether what several optimizers step is shared by learners that have parameters of their own each."""
    held = [item for item in model.parameters.values() if item.group is not None]
    shared = [item for item in held if _times_stepped(item, early) > 1]
    own = {item.group[0] for item in held if item.group and _times_stepped(item, early) == 1}
    users = {number for item in shared for number, _ in item.every_group}
    return bool(shared) and len(users) > 1 and users <= own and not model.outside


def _count_optimizers(context: StepContext, memory: _SharedParameterErrorState) -> None:
    """Count the optimizers of the beginning; under `mindscope run` each is known once it has stepped."""
    count = len(context.model.structure.optimizers)
    if count and memory.began < 0:
        memory.began = context.step
    if context.step <= memory.began + 1:
        memory.early = count


def _times_stepped(item: ParameterInfo, early: int) -> int:
    """Return by how many groups the parameter is stepped: of the early optimizers together, or of a later one."""
    return max(Counter(number if number >= early else -1 for number, _ in item.every_group).values(), default=0)
