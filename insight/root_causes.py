"""Separates root causes from their consequences: the earliest in time and data flow whose parents are healthy."""

from collections.abc import Iterable, Sequence
from typing import Final

from ..storage import Finding, Structure
from .consequences import ATTENTION, FADED_LATER, LAST_RESORT, NON_FINITE, SHAPES, Causes, explains_anything, may_follow
from .failure import LOST_CONNECTION
from .loss_levels import HALFWAY, UPHILL

#: What the evidence of a leak holds whose outputs depend on input at a later position.
SEEN_EARLIER: Final = "first_output"
#: Causes of one moment: another cause that began at most `JUST_BEFORE` steps before explains them.
MOMENTARY: Final[Causes] = frozenset({"loss_spike"})
JUST_BEFORE: Final = 20
#: Harm that the run has recovered from: it explains only what began before, and comes after lasting causes.
PASSED: Final[Causes] = frozenset({"missing_warmup"})
#: What grows where a loss has no floor.
_GROWTH: Final[Causes] = frozenset({"exploding_gradient", "learning_rate_too_high", "attention_logit_growth"})
#: Causes that are judged over a long window: anything found while it was open may explain them.
WINDOWED: Final[Causes] = frozenset({"uninformative_labels", "wrong_loss_sign", "overfitting", "frozen_parameter"})
#: Causes that are told by what was done, and not by a threshold on what came of it; they are named first.
CERTAIN: Final[Causes] = NON_FINITE | {
    # what ended the run; a process that was killed may have been so on request
    "hang",
    "input_mismatch",
    "out_of_memory",
    "program_error",
    "accumulation_scale",
    "clipping_to_nothing",
    "data_leak",
    "expert_starvation",
    "frozen_parameter",
    "identical_rank_data",
    "loss_input_domain",
    "loss_scale_overflow",
    "missing_nonlinearity",
    "missing_optimizer_step",
    "missing_zero_grad",
    "optimizer_state_stale",
    "parameter_not_in_optimizer",
    "rank_desync",
    "rank_dropped",
    "rank_rng_error",
    "reduce_scale",
    "repeated_batch",
    "resume_mismatch",
    "shared_parameter_error",
    "silent_data_corruption",
    "stale_weights",
    "wrong_backward",
    "wrong_train_eval_mode",
    "zero_advantage",
}
#: Causes that only cost time; they are named last.
PERFORMANCE: Final[Causes] = frozenset({"straggler", "dataloader_bound"})
#: Metrics by which a batch is found whose input is not finite.
_NON_FINITE_INPUT: Final = frozenset({"batch/nans", "batch/pos_infs"})
#: Harm that values carry from module to module, and harm that gradients carry back.
ON_THE_WAY_FORTH: Final[Causes] = ATTENTION | {
    "non_finite_activation",
    "dead_units",
    "saturated_activation",
    "router_collapse",
    "expert_starvation",
    "unnormalized_input",
}
ON_THE_WAY_BACK: Final[Causes] = frozenset({"non_finite_gradient", "exploding_gradient", "vanishing_gradient"})


class DataFlow:
    """The data flow among the modules of the first forward, by site.

    A site is a module, a module with others inside, or a parameter; sites that were never called lead nowhere.

    Args:
        structure: As the probe recorded it; of one that knows no inputs nothing leads anywhere.
    """

    def __init__(self, structure: Structure) -> None:
        self._inputs = {module.site: module.inputs for module in structure.modules}
        self._ancestors: dict[str, frozenset[str]] = {}

    def leads_to(self, site: str, other: str) -> bool:
        """True when values flow from the first to the second and never back; False for the whole model, and for two
        sites of which one is inside the other."""
        cause_modules, other_modules = self._modules(site), self._modules(other)
        if not site or not other or cause_modules & other_modules:
            return False
        return self._reaches(cause_modules, other_modules) and not self._reaches(other_modules, cause_modules)

    def _reaches(self, modules: frozenset[str], targets: Iterable[str]) -> bool:
        return any(modules & self._before(site) for site in targets)

    def _modules(self, site: str) -> frozenset[str]:
        """Return the modules that the site stands for: itself and all inside, or the owner of the parameter."""
        owner = site if site in self._inputs else site.rpartition(".")[0]
        inside = {name for name in self._inputs if name == owner or name.startswith(f"{owner}.")}
        return frozenset(inside) if owner else frozenset()

    def _before(self, site: str) -> frozenset[str]:
        """Return every module from which values flow into this one."""
        if site not in self._ancestors:
            found: set[str] = set()
            waiting = list(self._inputs.get(site, ()))
            while waiting:
                source = waiting.pop()
                if source not in found:
                    found.add(source)
                    waiting += self._inputs.get(source, ())
            self._ancestors[site] = frozenset(found)
        return self._ancestors[site]


#: At most this many root causes are named; a longer list is no help at 3 a.m.
LIMIT: Final = 3
_NOWHERE: Final = DataFlow(Structure())


def root_causes(findings: Sequence[Finding], structure: Structure | None = None) -> tuple[Finding, ...]:
    """Return the findings that explain the others: facts first, then the earliest, at most `LIMIT`.

    What the run has recovered from comes behind what it has not, and what only costs time comes last. Where there are
    more than `LIMIT`, errors are kept rather than warnings.

    Args:
        structure: Whence the data flow is known; without it only times and words decide.
    """
    return leading(root for root, _ in folded(findings, structure))


def leading(roots: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the root findings that are named as root causes, in the order of `root_causes`."""
    ranked = sorted(roots, key=_rank)
    kept = sorted(ranked, key=lambda root: root.severity != "error")[:LIMIT]
    return tuple(root for root in ranked if root in kept)


def _rank(root: Finding) -> tuple[bool, bool, bool]:
    is_likely = root.confidence < 1 and root.cause not in CERTAIN and not _is_of_the_data(root)
    return root.cause in PERFORMANCE, root.cause in PASSED, is_likely


def folded(
    findings: Sequence[Finding], structure: Structure | None = None
) -> tuple[tuple[Finding, tuple[Finding, ...]], ...]:
    """Return every finding that follows from no other, earliest first, with all findings that follow from it.

    Notices (severity info), faults of the monitor itself and a person's watchpoints are never the cause of what the
    model does, and follow from nothing; but a notice of last resort follows from whatever explains it.
    """
    data_flow = DataFlow(structure) if structure else _NOWHERE
    candidates = sorted(filter(_matters, findings), key=appearance)
    parent: list[int] = []
    for at, finding in enumerate(candidates):
        possible = [other for other in range(at) if explains(candidates[other], finding, data_flow)]
        of_data = (other for other in possible if _is_of_the_data(candidates[other]))
        parent.append(next(of_data, possible[0] if possible else at))
    first = [at for at, parent_index in enumerate(parent) if parent_index == at]
    for at in first:  # what is judged over a window may follow from what began in it, and so comes after it
        later = (other for other in first if other > at and explains(candidates[other], candidates[at], data_flow))
        parent[at] = next(later, at)
    below: dict[int, list[Finding]] = {at: [] for at in first if parent[at] == at}
    for at, finding in enumerate(candidates):
        if at not in below:
            below[_top(parent, at)].append(finding)
    for notice in findings:
        if notice.severity == "info" and notice.cause in LAST_RESORT:
            earlier = (other for other in range(len(candidates)) if explains(candidates[other], notice, data_flow))
            at = next(earlier, -1)
            if at >= 0:
                below[_top(parent, at)].append(notice)
    return tuple((candidates[at], tuple(following)) for at, following in below.items())


def _top(parent: Sequence[int], at: int) -> int:
    """Return the finding at the end of the chain of causes."""
    while parent[at] != at:
        at = parent[at]
    return at


def explains(cause: Finding, finding: Finding, data_flow: DataFlow = _NOWHERE) -> bool:
    """True when the finding may be a consequence of the cause, which appeared no later, or is the same elsewhere.

    Any cause that was found before explains a finding of last resort. A cause that began just before a sudden rise of
    the loss explains it. A possible cause that began before the window closed explains a finding judged over that
    window. Harm that travels with the values, or with the gradients, is explained by such harm at an earlier site.
    """
    if cause is finding:
        return False
    if (among_ranks := _explains_among_ranks(cause, finding)) is not None:
        return among_ranks
    if cause.rule == finding.rule and (cause.site == finding.site or began_together(cause, finding)):
        return appearance(cause) <= appearance(finding)
    if (cause.cause, finding.cause) in _AT_ANY_TIME:
        return _AT_ANY_TIME[cause.cause, finding.cause](cause, finding)
    if _is_of_the_data(finding) or (cause.cause in PASSED and finding.first_step > cause.step):
        return False
    if (growing := _explains_growth(cause, finding)) is not None:
        return growing
    if finding.cause in LAST_RESORT and explains_anything(cause.cause):
        return cause.first_step <= finding.step
    if finding.cause in MOMENTARY and cause.cause not in MOMENTARY and _is_just_before(cause, finding):
        return True
    if finding.cause in WINDOWED and finding.confidence < 1 and cause.first_step <= finding.step:
        is_first = cause.cause not in WINDOWED or appearance(cause) <= appearance(finding)
        return is_first and may_follow(cause.cause, finding.cause)
    return _follows(cause, finding) or _flows(cause, finding, data_flow)


#: What ends a rank, so that the others wait for it or lose their connection to it.
_ENDS: Final[Causes] = frozenset({"program_error", "process_killed", "out_of_memory"})


def _explains_among_ranks(cause: Finding, finding: Finding) -> bool | None:
    """Return whether one of two ends of ranks explains the other, whichever came first; None if these are none.

    A rank that lost its connection explains nothing, and follows from a hang and from what ended another rank. The
    error of the rank that others wait for explains their hang. A hang explains a process that was killed: it says what
    the rank called that the backend has ended, or that it is gone.
    """
    if _is_lost_connection(cause) and finding.cause in _ENDS | {"hang"}:
        return _is_lost_connection(finding) and appearance(cause) <= appearance(finding)
    if _is_lost_connection(finding):
        return True if cause.cause in _ENDS | {"hang"} else None
    if cause.cause == "hang" and finding.cause == "process_killed":
        return True
    if finding.cause == "hang" and cause.cause in _ENDS:
        return cause.cause != "process_killed" and cause.rank == finding.rank
    if cause.cause == "hang" and finding.cause in _ENDS and cause.rank == finding.rank:
        return False
    return None


def _is_of_the_data(finding: Finding) -> bool:
    """Return whether a batch was not finite before the model saw it: nothing that the training does can be why."""
    return finding.cause == "bad_batch" and finding.metric in _NON_FINITE_INPUT


def _explains_growth(cause: Finding, finding: Finding) -> bool | None:
    """Return whether one of a loss that falls without end and of what grows explains the other; None otherwise.

    A loss that a step raises by its derivative does so in all passes, whichever was looked at.
    """
    if _has_no_floor(finding) and cause.cause in _GROWTH:
        return False
    return True if _is_uphill(cause) and finding.cause in _GROWTH else None


def _has_no_floor(finding: Finding) -> bool:
    """Return whether the loss falls below zero without end, or a step raises it by its derivative.

    Everything grows then, and nothing that grows does that.
    """
    return finding.cause == "wrong_loss_sign" and (HALFWAY in finding.evidence or _is_uphill(finding))


def _is_uphill(finding: Finding) -> bool:
    """Return whether the derivative of a loss, measured in one pass, says that a step raises it."""
    return finding.cause == "wrong_loss_sign" and finding.evidence.keys() >= UPHILL


def _leaks(reshape: Finding, leak: Finding) -> bool:
    """Return whether positions see later ones where a reshape mixes them, as of heads that are merged as they are."""
    is_inside = not leak.site or f"{reshape.site}.".startswith(f"{leak.site}.")
    return is_inside and reshape.rank == leak.rank and SEEN_EARLIER in leak.evidence


def _waits(straggler: Finding, waiting: Finding) -> bool:
    """Return whether it is the same rank: were all of them waiting for data, none would wait for another."""
    return straggler.rank == waiting.rank


def _is_of_one_rank(held: Finding, finding: Finding) -> bool:
    return held.rank == finding.rank


#: What an optimizer that holds other parameters brings with it: it steps and clears only what it holds, may hold one
#: network twice in place of another, and modules that the model does not know are not switched to evaluation either.
_OF_OTHER_PARAMETERS: Final = (
    "missing_optimizer_step",
    "missing_zero_grad",
    "shared_parameter_error",
    "wrong_train_eval_mode",
)
#: Causes that explain another whichever of the two came first: both are told of the same code, or of the same time.
_AT_ANY_TIME: Final = {
    ("straggler", "dataloader_bound"): _waits,
    ("reshape_error", "data_leak"): _leaks,
    **{("parameter_not_in_optimizer", effect): _is_of_one_rank for effect in _OF_OTHER_PARAMETERS},
}


def _is_lost_connection(finding: Finding) -> bool:
    return finding.cause == "program_error" and LOST_CONNECTION in finding.evidence


def is_superfluous(finding: Finding, found: Iterable[Finding]) -> bool:
    """Return whether the finding is of last resort and a fact explains it, which nothing withdraws."""
    return finding.cause in LAST_RESORT and any(
        fact.confidence == 1.0 and _matters(fact) and explains(fact, finding) for fact in found
    )


def _is_just_before(cause: Finding, finding: Finding) -> bool:
    is_near = finding.first_step - JUST_BEFORE <= cause.first_step <= finding.step
    return is_near and explains_anything(cause.cause)


def began_together(finding: Finding, other: Finding) -> bool:
    """Return True for two findings of one rule that began together: one problem at several sites or ranks."""
    return (finding.rule, finding.first_step) == (other.rule, other.first_step)


def _follows(cause: Finding, finding: Finding) -> bool:
    if appearance(cause) > appearance(finding) or _is_open_to(cause, finding):
        return False
    if cause.cause in SHAPES and finding.cause in FADED_LATER and finding.first_step <= cause.step:
        return False
    return may_follow(cause.cause, finding.cause)


def _is_open_to(cause: Finding, finding: Finding) -> bool:
    """Return whether the cause was judged over a window in which the finding began, and may itself follow from it."""
    is_windowed = cause.cause in WINDOWED and cause.confidence < 1 and finding.cause not in WINDOWED
    if _has_no_floor(cause) and finding.cause in _GROWTH:
        return False
    return is_windowed and may_follow(finding.cause, cause.cause) and finding.first_step <= cause.step


def _flows(cause: Finding, finding: Finding, data_flow: DataFlow) -> bool:
    if cause.first_step > finding.first_step or cause.rank != finding.rank:
        return False
    if {cause.cause, finding.cause} <= ON_THE_WAY_FORTH:
        return data_flow.leads_to(cause.site, finding.site)
    return {cause.cause, finding.cause} <= ON_THE_WAY_BACK and data_flow.leads_to(finding.site, cause.site)


def _matters(finding: Finding) -> bool:
    return finding.severity != "info" and finding.cause not in ("monitor_fault", "watchpoint")


def appearance(finding: Finding) -> tuple[int, tuple[int, int, int], int, str, str]:
    """Return the sort key of findings: first step, then position in that step's data flow."""
    return (finding.first_step, finding.order, finding.rank, finding.rule, finding.site)
