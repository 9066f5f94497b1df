"""Tied weights that come apart, or are stepped twice."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...storage import Event, Finding, Structure, display_site
from ..recording import Recording, chain
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule
from ..view.anatomy import Anatomy
from ..view.moment import Moment

_MODEL = chain("embed:Embedding", "head:Linear")


def _with(*, storages: tuple[int, int] = (1, 2), more: tuple[tuple[int, int], ...] = ()) -> Structure:
    pairs = zip(_MODEL.parameters, storages, strict=True)
    return replace(_MODEL, parameters=tuple(replace(one, storage=at, more_groups=more) for one, at in pairs))


@dataclass(slots=True)
class _Memory:
    """What was tied at the start, and what was said."""

    checked: Anatomy | None = None
    said: set[str] = field(default_factory=set)


@rule(
    "shared-parameter-error",
    needs=("structure",),
    asked_on=("event/tie_broken", NEW_STRUCTURE),
    phase=CONFIGURATION,
    memory=_Memory,
    is_fact=True,
    fires_on=(
        Recording(structure=_with(), events=(Event("tie_broken", 0, "embed.weight", data={"sites": ["a", "b"]}),)),
        Recording(structure=_with(more=((1, 0),))),
    ),
    silent_on=(
        Recording(structure=_with()),
        Recording(structure=_with(storages=(1, 1))),
        Recording(
            structure=_with(storages=(1, 1)),
            events=(Event("shared_parameter", 0, "embed.weight", data={"sites": ["embed.weight", "head.weight"]}),),
        ),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """Parameters that shared memory at the start no longer do, or one parameter stands in several optimizer groups.

    Both are identities, not measurements: the place of the values in memory, and membership.
    """
    for event in now.events("tie_broken"):
        sites = event.data.get("sites")
        names = [str(site) for site in sites] if isinstance(sites, list) else [event.site]
        yield now.finding(
            event.site,
            "weight/l2_norm",
            {"parameters": len(names)},
            first_step=event.step,
            explanation=f"{' and '.join(names[:4])} shared one memory until step {event.step} and do not any more: "
            f"from "
            f"here on each goes its own way",
            advice="look for an assignment of a new Parameter, a conversion or a load after the weights were tied; tie "
            "them again before the optimizer is made",
        )
    anatomy = now.anatomy
    if memory.checked is anatomy:
        return
    memory.checked = anatomy
    for item in anatomy.parameters.values():
        if item.more_groups and item.site not in memory.said:
            memory.said.add(item.site)
            times = 1 + len(item.more_groups)
            yield now.finding(
                item.site,
                "update/l2_norm",
                {"groups": times},
                explanation=f"{display_site(item.site)} stands in {times} groups of the watched optimizers, so that "
                f"it is "
                f"stepped {times} times for one gradient",
                advice="give every parameter to one group of one optimizer; collect parameters by identity, not by "
                "name",
            )
