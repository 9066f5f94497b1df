"""Parameters that require no gradient, or never get one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...storage import Finding, ParameterInfo, display_site
from ..anatomy import Anatomy
from ..moment import Moment
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule
from ..series import Streaks
from ..table import Table

_LAYERS = ("one:Dense", "two:Dense", "three:Dense")
_WAITED = 20


@dataclass(slots=True)
class _Memory:
    """Which structure was checked, and for how long each parameter has been without a gradient."""

    checked: Anatomy | None = None
    said: set[str] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)
    streaks: Streaks = field(default_factory=Streaks)


@rule(
    "frozen-parameter",
    needs=("structure",),
    phase=CONFIGURATION,
    memory=_Memory,
    is_fact=True,
    fires_on=(
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"])),
        Recording(
            {"one.weight gradient/l2_norm": (None,) * 22, "two.weight gradient/l2_norm": (1.0,) * 22},
            chain("one:Dense", "two:Dense"),
        ),
    ),
    silent_on=(
        Recording(structure=chain(*_LAYERS)),
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"]), config={"expected_frozen": ["two*"]}),
        Recording({"one.weight gradient/l2_norm": (None, None, 1.0) * 8}, chain("one:Dense", "two:Dense")),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """A parameter with `requires_grad` off, or one that no gradient has reached in 20 records while others got theirs.

    The fact is exact, the intent is not known: it is a warning, and only a notice where most of the model is frozen,
    as in fine-tuning. `expected_frozen`, globs over sites in the run's configuration, says what is meant. Running
    statistics of normalisation layers are no parameters in this sense. Parameters of one module are reported as that
    module.
    """
    if memory.checked is not now.anatomy:
        memory.checked = now.anatomy
        yield from _without_requires_grad(now, memory)
    table = now.table("gradient")
    if table is not None and not now.record.skipped:
        yield from _unreached(now, memory, table)


def _without_requires_grad(now: Moment, memory: _Memory) -> Iterator[Finding]:
    anatomy = now.anatomy
    frozen = tuple(
        item for item in anatomy.parameters.values() if not item.requires_grad and anatomy.is_trainable(item)
    )
    values = sum(prod(item.shape) for item in frozen)
    total = sum(prod(item.shape) for item in anatomy.parameters.values())
    deliberate = values > 0.5 * total
    groups = anatomy.gather(frozen)
    for site, items in list(groups.items())[: 1 if deliberate else 8]:
        if site in memory.said:
            continue
        memory.said.add(site)
        shown = "" if deliberate else site
        yield now.finding(
            shown,
            "",
            {
                "parameters": len(frozen) if deliberate else len(items),
                "values": values if deliberate else sum(prod(item.shape) for item in items),
                "values_of_the_model": total,
            },
            severity="info" if deliberate else "warning",
            explanation=f"{_names(frozen if deliberate else items)} of {display_site(shown)} {_do(items)} not "
            f"require a "
            "gradient, so no step will ever change it" + ("; most of the model is so, as in fine-tuning" * deliberate),
            advice="this needs your intent: set requires_grad = True before the optimizer is made if it shall learn, "
            "or name "
            f"it in the configuration, expected_frozen: [{site!r}], if it shall not",
        )


def _unreached(now: Moment, memory: _Memory, table: Table) -> Iterator[Finding]:
    absent = ~table.present
    if not absent.any() or absent.all():
        memory.streaks.update(absent & False, table.present | absent, now.step)
        return
    lengths = memory.streaks.update(absent, np.ones_like(absent), now.step)
    sites = [table.rows.sites[row] for row in np.flatnonzero(lengths == _WAITED)]
    known = [now.anatomy.parameters[site] for site in sites if site in now.anatomy.parameters]
    waited = tuple(item for item in known if item.requires_grad and now.anatomy.is_trainable(item))
    for site, items in list(now.anatomy.gather(waited).items())[:8]:
        if site in memory.said:
            continue
        memory.said.add(site)
        since = min(int(memory.streaks.since[table.rows.sites.index(item.site)]) for item in items)
        yield now.finding(
            site,
            "gradient/l2_norm",
            {"parameters": len(items), "records": _WAITED},
            severity="warning",
            first_step=since,
            explanation=f"no gradient has reached {_names(items)} of {display_site(site)} in the last {_WAITED} "
            f"records, "
            "although it requires one and other parameters got theirs",
            advice="the path from the loss to it is cut: look for detach(), stop_gradient, no_grad, .data, a "
            "conversion to "
            "NumPy and back, or a module that the forward pass does not call",
        )


def _names(items: tuple[ParameterInfo, ...]) -> str:
    names = [item.site.rpartition(".")[2] for item in items]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} parameters"


def _do(items: tuple[ParameterInfo, ...]) -> str:
    return "do" if len(items) > 1 else "does"
