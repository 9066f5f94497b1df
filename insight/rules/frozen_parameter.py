"""Parameters that require no gradient, or never get one."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...storage import Event, Finding, ParameterInfo, Structure, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.frozen_networks import MEANT, NO_GRAPH, RANDOM, TWO_NAMES, told_frozen
from ..indicators.lowered_findings import withdrawn
from ..indicators.unused_parts import question_about
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule
from ..running_statistics import Streaks, count_before_first

_LAYERS = ("one:Dense", "two:Dense", "three:Dense")
_WAITED = 12
#: Fewest elements of a judged parameter; a single number may well have a gradient of zero.
_FEWEST = 16
_LAYERS_OF_A_MODEL = 4
#: Share of the largest gradient so far below which a gradient is rounding.
_NOTHING = 1e-6
_UNGIVEN = "stepped_parameters_get_gradients"
_UNCALLED, _QUIET = "alike_layers_are_called", "trained_networks_are_called_with_gradients"

_CUT = (
    "find where the path from the loss to it is cut: detach(), stop_gradient, no_grad, .data, a conversion to NumPy "
    "and back, a loss term with a weight of zero, or a module that the forward pass does not call"
)


@dataclass(slots=True)
class _FrozenParameterState:
    """The checked structure, and for how long each parameter has been without a gradient."""

    checked: ModelIndex | None = None
    reported: set[str] = field(default_factory=set)
    frozen: dict[str, Finding] = field(default_factory=dict)
    missing: dict[str, Finding] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    trained: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    gradients: int = -1
    largest: float = 0.0
    streaks: Streaks = field(default_factory=Streaks)
    uncalled: dict[str, Event] = field(default_factory=dict)
    is_elsewhere: bool = False


def _large(site: str) -> Structure:
    """Four layers, of which a frozen one holds most of the weights."""
    model = chain(*_LAYERS, "four:Dense", frozen=[f"{site}.weight"])
    sizes = {f"{site}.weight": (100, 100)}
    parameters = (replace(item, shape=sizes.get(item.site, item.shape)) for item in model.parameters)
    return replace(model, parameters=tuple(parameters))


def _apart(*others: str) -> Structure:
    """Three layers, of which these are held by a second optimizer."""
    model = chain(*_LAYERS)
    second = [f"{site}.weight" for site in others]
    parameters = (replace(item, group=(1, 0) if item.site in second else (0, 0)) for item in model.parameters)
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
        if norms is None or memory.streaks.are_running or memory.missing or memory.frozen
        else SkipWindow(count_before_first(~(norms.min(axis=1) > 0)))
    )


@rule(
    "frozen-parameter",
    needs=("structure",),
    triggers=("structure", "event/check"),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_FrozenParameterState,
    asks="intent",
    fires_on=(
        Recording(structure=chain(*_LAYERS), events=(refuting_event(_UNGIVEN, "none of its 6 parameters"),)),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(TWO_NAMES, "none of the 6 parameters"),)),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(MEANT, "all 6 parameters are trained"),)),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(NO_GRAPH, "the pass starts from a number"),)),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(RANDOM, "from_pretrained freezes"),)),
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
        # both optimizers step
        Recording(
            {
                "scalar/learner/stepped": 3.0,
                "one.weight gradient/l2_norm": (1.0,) * 22,
                "three.weight gradient/l2_norm": (None,) * 22,
            },
            _apart("three"),
        ),
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 14, "two.weight gradient/l2_norm": (None,) * 14},
            chain("one:Dense", "two:Dense"),
            events=(replace(refuting_event(_QUIET, "a step calls two 8 times"), site="two"),),
        ),
    ),
    silent_on=(
        Recording(structure=chain(*_LAYERS), events=(refuting_event(_UNGIVEN, "", outcome="held"),)),
        # a layer that was not called at two steps, and got its gradients at others
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 14, "two.weight gradient/l2_norm": (1.0, None) * 7},
            chain("one:Dense", "two:Dense"),
            events=tuple(replace(refuting_event(one, "", is_same=1.0), site="two") for one in (_UNCALLED, _QUIET)),
        ),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(MEANT, "", outcome="held"),)),
        Recording(structure=chain(*_LAYERS), events=(refuting_event(RANDOM, "", outcome="held"),)),
        # every pair keeps its distance: only rounding comes back
        Recording(
            {"scalar/loss": 0.0, "one.weight gradient/l2_norm": (1e-12,) * 14, "two.weight gradient/l2_norm": 0.0},
            chain("one:Dense", "two:Dense"),
        ),
        Recording(structure=chain(*_LAYERS)),
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"]), config={"expected_frozen": ["two*"]}),
        Recording({"one.weight gradient/l2_norm": (None, None, 1.0) * 8}, chain("one:Dense", "two:Dense")),
        # trained later, by an optimizer of its own
        Recording(
            {
                "scalar/learner/stepped": 1.0,
                "one.weight gradient/l2_norm": (1.0,) * 22,
                "two.weight gradient/l2_norm": (1.0,) * 22,
                "three.weight gradient/l2_norm": (None,) * 22,
            },
            _apart("three"),
        ),
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

    Parameters with `requires_grad` off are a question: fine-tuning, teachers and fixed embeddings are built so. They
    are a warning if they required a gradient earlier in the run; a question, where the optimizers that hold them step
    no more while others do for 12 steps, as in a second phase that trains a part. `expected_frozen`, globs over sites
    in the run's configuration, declares what is frozen on purpose.

    An embedding that `from_pretrained` has made of random values, and frozen by that, is a warning as well.

    Parameters that require a gradient, stand in an optimizer, and get none, or zeros only, for 12 records in which
    others got theirs are a warning; a question, if their module was never called, if it is one value that no
    optimizer holds beside another, or if it is what the last of several blocks would hand on to the next. When a
    gradient comes, or is required again, the finding becomes a notice: a curriculum or a schedule may train a layer
    later. What only optimizers hold that rest, while others step, waits for nothing: layers that are trained one
    after the other.

    What the calls of modules at steps 1 and 25 tell is a warning, too: such a layer that is never called, while another
    of its parent's that is alike is called twice with the same input (with different ones: a question); and a frozen
    network that is called with gradients and without in one step and has two names, as where the target of a momentum
    encoder is no copy. So is one that is called without gradients only, and that nothing else writes, as an average is
    written.

    Of an optimizer that rests at most steps, such as a generator's between those of its critic, the probe looks at two
    steps of its own: that none of its parameters has a gradient at both is a warning as well.

    In a rehearsal (`mindscope doctor`) it asks the reverse, too: of a script that sets requires_grad or speaks of
    freezing, and trains all parameters of its model.

    Left out are running statistics of normalisation layers, gradients that the monitor cannot read (sparse ones), and
    experts beside a watched router, which get no gradient without tokens; the router itself must get one. Once another
    model is trained that is not recorded, what reaches this one no longer tells. Parameters of one module are reported
    as that module.
    """
    if memory.checked is not context.model:
        memory.checked = context.model
        yield from _without_requires_grad(context, memory)
    memory.uncalled |= {event.site: event for event in refuted(context, _UNCALLED, _QUIET)}
    yield from told_frozen(context)
    yield from _ungiven(context, memory)
    for event in context.events("monitor_fault"):
        if event.data.get("collector") == "gradient":
            memory.unread.add(event.site)
    memory.is_elsewhere |= bool(context.events("later_training"))
    table = context.table("gradient")
    if table is not None and not context.record.skipped:
        yield from _held(context, memory)
        if not memory.is_elsewhere:
            yield from _unreached(context, memory, table)
    yield from _confused(context, memory)
    yield from _written(context, memory)


def _ungiven(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    """Yield findings about networks whose optimizer steps without any gradient."""
    for event in refuted(context, _UNGIVEN, occasion=2):
        site = str(event.data.get("subject"))
        memory.reported.add(site)
        found = refutation(
            context,
            event,
            consequence="its loss trains nothing of it",
            advice="find where the path from its loss is cut: detach(), no_grad, .data, or a fake batch that was made "
            "for the other learner's step and is used again",
            metric="gradient/l2_norm",
            severity="warning",
            confidence=0.95,
        )
        since = event.data.get("since")
        yield replace(found, site=site, first_step=since if isinstance(since, int) else found.first_step)


def _written(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    """Ask about networks without a gradient whose weights something else writes."""
    checks = [event for event in context.events("check") if event.data.get("check") == _QUIET]
    for site in {event.site for event in checks if event.data.get("outcome") == "held"}:
        for name in [name for name in memory.missing if f"{name}.".startswith(f"{site}.")]:
            found = memory.missing[name]
            words = f"{found.explanation}; something else writes its weights: are they an average?"
            memory.missing[name] = replace(found, step=context.step, severity="info", explanation=words, confidence=0.5)
            yield memory.missing[name]


def _confused(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    """Yield the findings about layers without a gradient in whose place another is called twice."""
    for site, event in list(memory.uncalled.items()):
        for name, found in memory.missing.items():
            if not f"{name}.".startswith(f"{site}."):
                continue
            memory.uncalled.pop(site, None)
            numbers = event.data.get("numbers")
            is_quiet = event.data.get("check") == _QUIET
            is_sure = is_quiet or (isinstance(numbers, dict) and numbers.get("is_same") == 1.0)
            words = f"{event.data.get('counterexample')}; in the last {_WAITED} records it got no gradient"
            memory.missing[name] = replace(
                found,
                step=context.step,
                severity="warning" if is_sure else "info",
                explanation=words if is_sure else f"{words}: is one of the calls meant for it?",
                advice="call it with gradients where its answer enters the loss, or give its cached gradient back to it"
                if is_quiet
                else f"look for {event.data.get('subject')} where {site} is meant, as a copied line leaves it",
                confidence=0.95 if is_sure else 0.5,
            )
            yield memory.missing[name]


def _without_requires_grad(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    model, every = context.model, context.model.parameters.values()
    frozen = tuple(item for item in every if not item.requires_grad and model.is_trainable(item))
    yield from _unfrozen(context, memory, {item.site for item in frozen})
    values, total = (sum(prod(item.shape) for item in items) for items in (frozen, every))
    deliberate = (values > 0.5 * total or _is_most(context, frozen)) and not _is_one_of_many(context, frozen)
    groups = model.gather(frozen)
    for site, items in list(groups.items())[: 1 if deliberate else 8]:
        if site in memory.reported:
            continue
        memory.reported.add(site)
        shown, listed = ("", frozen) if deliberate else (site, items)
        had_trained = [item for item in listed if item.site in memory.trained]
        memory.frozen[site] = context.finding(
            shown,
            "",
            {
                "parameters": len(listed),
                "values": sum(prod(item.shape) for item in listed),
                "values_of_the_model": total,
            },
            severity="warning" if len(had_trained) == len(listed) else "info",
            explanation=f"{_names(listed)} of {display_site(shown)} {_auxiliary(listed)} not require a gradient, so no "
            f"step changes {'them' if len(listed) > 1 else 'it'} while that is so"
            + ("; so it is in fine-tuning, and where parameters hold constants" * deliberate)
            + ("; until this step they did" if had_trained else "; is that meant?"),
            advice="decide what you intend: to train it, set requires_grad = True before the optimizer is made; to "
            f"keep it frozen, declare expected_frozen: [{site!r}] in the configuration",
            confidence=0.7 if had_trained else 0.5,
        )
        if len(had_trained) == len(listed):
            memory.held.add(site)
        else:
            yield memory.frozen[site]
    memory.trained |= {item.site for item in every if item.requires_grad}


def _held(context: StepContext, memory: _FrozenParameterState) -> Iterator[Finding]:
    """Yield the findings about what has trained, once an optimizer of it has stepped, or others have all the while."""
    stepped, parameters = context.scalar("learner/stepped"), context.model.parameters.values()
    for site in tuple(memory.held):
        found = memory.frozen[site]
        items = [item for item in parameters if f"{item.site}.".startswith(f"{site}.") and not item.requires_grad]
        is_left = stepped is not None and not any(_has_stepped(item, int(stepped)) for item in items)
        if context.step == found.first_step or (is_left and context.step < found.first_step + _WAITED):
            continue  # the record of a change does not tell yet who steps
        memory.held.remove(site)
        if is_left:
            words = f"{found.explanation}, and what holds them no longer steps; is that meant?"
            found = memory.frozen[site] = replace(found, severity="info", explanation=words, confidence=0.5)
        yield found


def _unfrozen(context: StepContext, memory: _FrozenParameterState, frozen: set[str]) -> Iterator[Finding]:
    """Yield, as notices, the findings about parameters that require a gradient now."""
    for site, found in list(memory.frozen.items()):
        inside = [name for name in context.model.parameters if name == site or name.startswith(f"{site}.")]
        if inside and frozen.isdisjoint(inside):
            del memory.frozen[site]
            memory.reported.discard(site)
            if site in memory.held:
                memory.held.remove(site)
                continue
            words = f"{display_site(site)} required no gradient from step {found.first_step} on, and does since step "
            yield withdrawn(found, context, f"{words}{context.step}")


def _unreached(context: StepContext, memory: _FrozenParameterState, table: Table) -> Iterator[Finding]:
    is_waiting = memory.streaks.are_running or memory.missing or memory.frozen
    if not is_waiting and table.is_whole and table.low("l2_norm") > 0:
        return  # as at nearly every step
    yield from _reached(context, memory, table)
    norm = float(table.there("l2_norm").max(initial=0.0))
    memory.largest = max(memory.largest, norm) if np.isfinite(norm) else memory.largest
    if context.scalar("loss") == 0.0 or norm < _NOTHING * memory.largest:
        return  # nothing is left to learn, or of this batch
    is_nothing = table.column("l2_norm") == 0
    if not table.is_whole or is_nothing.any():
        is_nothing = ~table.present | (is_nothing & (table.column("size") >= _FEWEST))
    awake = _awake(context, table)
    absent = is_nothing & awake
    if not absent.any() or absent.all():
        memory.streaks.update(absent & False, (table.present | absent) & awake, context.step)
        return
    lengths = memory.streaks.update(absent, awake, context.step)
    sites = [table.rows.sites[row] for row in np.flatnonzero(lengths == _WAITED)]
    known = [
        context.model.parameters[site] for site in sites if site in context.model.parameters.keys() - memory.unread
    ]
    routers = context.known_sites("router")
    routed = tuple(f"{site.rpartition('.')[0]}." for site in routers)
    waited = tuple(
        item
        for item in known
        if item.requires_grad
        and _is_expected(context, item)
        and (not item.site.startswith(routed) or item.site.rpartition(".")[0] in routers)
    )
    for site, items in list(context.model.gather(waited).items())[:8]:
        if site in memory.reported:
            continue
        memory.reported.add(site)
        since = min(int(memory.streaks.since[table.rows.sites.index(item.site)]) for item in items)
        asks = question_about(context, site, items, table)
        memory.missing[site] = context.finding(
            site,
            "gradient/l2_norm",
            {"parameters": len(items), "records": _WAITED},
            severity="info" if asks else "warning",
            first_step=since,
            explanation=f"{_named(items, site)} got no gradient other than zero in the last "
            f"{_WAITED} records, although {'they require' if len(items) > 1 else 'it requires'} one and other "
            f"parameters got theirs{asks}",
            advice=_CUT,
            confidence=0.5 if asks else 0.95,
        )
        yield memory.missing[site]


def _awake(context: StepContext, table: Table) -> NDArray[np.bool_]:
    """Return, for each row, whether an optimizer of it has stepped: of several, some may rest for a while."""
    stepped = context.scalar("learner/stepped")
    if stepped is None:
        return np.ones(len(table.rows.sites), np.bool_)
    found = (context.model.parameters.get(site) for site in table.rows.sites)
    return np.array([item is None or _has_stepped(item, int(stepped)) for item in found], np.bool_)


def _has_stepped(item: ParameterInfo, stepped: int) -> bool:
    return not item.every_group or any(stepped >> number & 1 for number, _ in item.every_group)


def _reached(context: StepContext, memory: _FrozenParameterState, table: Table) -> Iterator[Finding]:
    """Yield, as notices, the findings about parameters that get a gradient now."""
    norms, sites = table.column("l2_norm"), table.rows.sites
    count = int(np.count_nonzero(table.present & (norms > 0)))
    if count == memory.gradients or not (memory.missing or memory.frozen):
        return
    memory.gradients = count
    reached = [site for row, site in enumerate(sites) if table.present[row] and norms[row] > 0]
    for findings in (memory.missing, memory.frozen):
        for site, found in list(findings.items()):
            if any(name == site or name.startswith(f"{site}.") for name in reached):
                del findings[site]
                memory.reported.discard(site)
                memory.held.discard(site)
                earlier, here = f" got no gradient from step {found.first_step} on, and does", " gets gradients"
                words = f"{display_site(site)}{earlier if found.first_step < context.step else here}"
                words += f" since step {context.step}"
                yield withdrawn(found, context, words)


def _is_one_of_many(context: StepContext, frozen: tuple[ParameterInfo, ...]) -> bool:
    """Return whether a single layer of four or more is frozen."""
    layers = {context.model.owner(site) for site in context.model.parameters}
    return len({context.model.owner(item.site) for item in frozen}) == 1 and len(layers) >= _LAYERS_OF_A_MODEL


def _is_most(context: StepContext, frozen: tuple[ParameterInfo, ...]) -> bool:
    """Return whether more than half of the layers are wholly frozen."""
    layers = {context.model.owner(site) for site in context.model.parameters}
    trained = layers - {context.model.owner(item.site) for item in frozen}
    return 2 * len(trained) < len(layers)


def _is_expected(context: StepContext, item: ParameterInfo) -> bool:
    """True for parameters that somebody trains; what no optimizer holds is another rule's word."""
    has_groups = any(other.group is not None for other in context.model.parameters.values())
    return context.model.is_trainable(item) and (item.group is not None or not has_groups)


def _names(items: tuple[ParameterInfo, ...]) -> str:
    names = [item.site.rpartition(".")[2] for item in items]
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} parameters"


def _named(items: tuple[ParameterInfo, ...], site: str) -> str:
    return site if len(items) == 1 and items[0].site == site else f"{_names(items)} of {display_site(site)}"


def _auxiliary(items: tuple[ParameterInfo, ...]) -> str:
    return "do" if len(items) > 1 else "does"
