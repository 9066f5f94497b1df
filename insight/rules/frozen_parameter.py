"""Parameters that require no gradient, or never get one."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ...storage import Event, Finding, ParameterInfo, Structure, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule
from ..running_statistics import Streaks, count_before_first

_LAYERS = ("one:Dense", "two:Dense", "three:Dense")
_WAITED = 12
#: Fewest elements of a judged parameter; a single number may well have a gradient of zero.
_FEWEST = 16
_LAYERS_OF_A_MODEL = 4


@dataclass(slots=True)
class _FrozenParameterState:
    """The checked structure, and for how long each parameter has been without a gradient."""

    checked: ModelIndex | None = None
    reported: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)
    streaks: Streaks = field(default_factory=Streaks)


def _large(site: str) -> Structure:
    """Four layers, of which a frozen one holds most of the weights."""
    model = chain(*_LAYERS, "four:Dense", frozen=[f"{site}.weight"])
    sizes = {f"{site}.weight": (100, 100)}
    parameters = (replace(item, shape=sizes.get(item.site, item.shape)) for item in model.parameters)
    return replace(model, parameters=tuple(parameters))


def _skip_window(lookahead: Lookahead, memory: _FrozenParameterState) -> SkipWindow | None:
    """Skip records while a gradient reaches every parameter."""
    if memory.checked is not lookahead.context.model:
        return None
    if not lookahead.carries("gradient"):
        return lookahead.whole
    norms = lookahead.columns("gradient", "l2_norm")
    return (
        None
        if norms is None or memory.streaks.are_running
        else SkipWindow(count_before_first(~(norms.min(axis=1) > 0)))
    )


@rule(
    "frozen-parameter",
    needs=("structure",),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_FrozenParameterState,
    is_fact=True,
    asks="intent",
    fires_on=(
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"])),
        Recording(structure=_large("two")),
        Recording(
            {"one.weight gradient/l2_norm": (None,) * 22, "two.weight gradient/l2_norm": (1.0,) * 22},
            chain("one:Dense", "two:Dense"),
        ),
        # a head whose loss is weighted with zero
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 14, "two.weight gradient/l2_norm": 0.0},
            chain("one:Dense", "two:Dense"),
        ),
    ),
    silent_on=(
        Recording(structure=chain(*_LAYERS)),
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"]), config={"expected_frozen": ["two*"]}),
        Recording({"one.weight gradient/l2_norm": (None, None, 1.0) * 8}, chain("one:Dense", "two:Dense")),
        # a gradient that the monitor cannot read
        Recording(
            {"one.weight gradient/l2_norm": (None,) * 22, "two.weight gradient/l2_norm": (1.0,) * 22},
            chain("one:Dense", "two:Dense"),
            events=(Event("monitor_fault", 0, "one.weight", data={"collector": "gradient", "error": "sparse"}),),
        ),
    ),
)
def check(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    """Report parameters that require no gradient, and parameters that never get one.

    The rule fires for parameters with `requires_grad` off, and for parameters without a gradient, or with zeros only,
    for 12 records in which others got theirs. The fact is exact, the intent is unknown, so it is a warning.

    It is only a notice if most weights or layers are frozen, as in fine-tuning; a single large layer of four or more
    does not count as most. It is also a notice for a network beside the trained one, such as a teacher: nothing trained
    takes its output, and no gradient comes to it. `expected_frozen`, globs over sites in the run's configuration,
    declares what is frozen on purpose.

    Left out are running statistics of normalisation layers, gradients that the monitor cannot read (sparse ones), and
    experts beside a watched router, which get no gradient without tokens. Parameters of one module are reported as that
    module.
    """
    if memory.checked is not context.model:
        memory.checked = context.model
        yield from _without_requires_grad(context, memory)
    for event in context.events("monitor_fault"):
        if event.data.get("collector") == "gradient":
            memory.unread.add(event.site)
    table = context.table("gradient")
    if table is not None and not context.record.skipped:
        yield from _unreached(context, memory, table)


def _without_requires_grad(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    model = context.model
    frozen = tuple(item for item in model.parameters.values() if not item.requires_grad and model.is_trainable(item))
    values = sum(prod(item.shape) for item in frozen)
    total = sum(prod(item.shape) for item in model.parameters.values())
    deliberate = (values > 0.5 * total or _is_most(context, frozen)) and not _is_one_of_many(context, frozen)
    groups = model.gather(frozen)
    for site, items in list(groups.items())[: 1 if deliberate else 8]:
        if site in memory.reported:
            continue
        memory.reported.add(site)
        shown, listed = ("", frozen) if deliberate else (site, items)
        yield context.finding(
            shown,
            "",
            {
                "parameters": len(frozen) if deliberate else len(items),
                "values": values if deliberate else sum(prod(item.shape) for item in items),
                "values_of_the_model": total,
            },
            severity="info" if deliberate or _is_beside(context, site) else "warning",
            explanation=f"{_names(listed)} of {display_site(shown)} {_auxiliary(listed)} not require a gradient, so no "
            f"step will ever change {'them' if len(listed) > 1 else 'it'}"
            + ("; most of the model is frozen, as in fine-tuning" * deliberate),
            advice="decide what you intend: to train it, set requires_grad = True before the optimizer is made; to "
            f"keep it frozen, declare expected_frozen: [{site!r}] in the configuration",
        )


def _unreached(context: StepContext, memory: _FrozenParameterState, table: Table) -> Iterator[Finding]:
    if table.is_whole and table.low("l2_norm") > 0 and not memory.streaks.are_running:
        return  # as at nearly every step
    is_nothing = table.column("l2_norm") == 0
    if not table.is_whole or is_nothing.any():
        is_nothing = ~table.present | (is_nothing & (table.column("size") >= _FEWEST))
    absent = is_nothing
    if not absent.any() or absent.all():
        memory.streaks.update(absent & False, table.present | absent, context.step)
        return
    lengths = memory.streaks.update(absent, np.ones_like(absent), context.step)
    sites = [table.rows.sites[row] for row in np.flatnonzero(lengths == _WAITED)]
    known = [
        context.model.parameters[site] for site in sites if site in context.model.parameters.keys() - memory.unread
    ]
    routed = tuple(f"{site.rpartition('.')[0]}." for site in context.known_sites("router"))
    waited = tuple(
        item
        for item in known
        if item.requires_grad and _is_expected(context, item) and not item.site.startswith(routed)
    )
    for site, items in list(context.model.gather(waited).items())[:8]:
        if site in memory.reported:
            continue
        memory.reported.add(site)
        since = min(int(memory.streaks.since[table.rows.sites.index(item.site)]) for item in items)
        yield context.finding(
            site,
            "gradient/l2_norm",
            {"parameters": len(items), "records": _WAITED},
            severity="warning",
            first_step=since,
            explanation=f"{_names(items)} of {display_site(site)} got no gradient other than zero in the last "
            f"{_WAITED} records, although {'they require' if len(items) > 1 else 'it requires'} one and other "
            "parameters got theirs",
            advice="find where the path from the loss to it is cut: detach(), stop_gradient, no_grad, .data, a "
            "conversion to NumPy and back, a loss term with a weight of zero, or a module that the forward pass "
            "does not call",
            confidence=0.95,
        )


def _is_one_of_many(context: StepContext, frozen: tuple[ParameterInfo, ...]) -> bool:
    """Return whether a single layer of four or more is frozen."""
    layers = {context.model.owner(site) for site in context.model.parameters}
    return len({context.model.owner(item.site) for item in frozen}) == 1 and len(layers) >= _LAYERS_OF_A_MODEL


def _is_most(context: StepContext, frozen: tuple[ParameterInfo, ...]) -> bool:
    """Return whether more than half of the layers are wholly frozen."""
    layers = {context.model.owner(site) for site in context.model.parameters}
    trained = layers - {context.model.owner(item.site) for item in frozen}
    return 2 * len(trained) < len(layers)


def _is_beside(context: StepContext, site: str) -> bool:
    """Return whether the module is off the trained path: no gradient comes to its output, nothing trained takes it."""
    table = context.table("activation_grad")
    inside = [name for name in context.model.modules if name == site or name.startswith(f"{site}.")]
    if table is None or not inside or not table.present.any():
        return False
    reached = {name for name, is_there in zip(table.rows.sites, table.present, strict=True) if is_there}
    return reached.isdisjoint(inside) and all(context.model.is_an_end(name, within=site) for name in inside)


def _is_expected(context: StepContext, item: ParameterInfo) -> bool:
    """True for parameters that somebody trains; what no optimizer holds is another rule's word."""
    has_groups = any(other.group is not None for other in context.model.parameters.values())
    return context.model.is_trainable(item) and (item.group is not None or not has_groups)


def _names(items: tuple[ParameterInfo, ...]) -> str:
    names = [item.site.rpartition(".")[2] for item in items]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} parameters"


def _auxiliary(items: tuple[ParameterInfo, ...]) -> str:
    return "do" if len(items) > 1 else "does"
