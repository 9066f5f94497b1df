"""The table of rules: what a rule is, what it needs to see, and the decorator that enters it."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..storage import Finding, nearest
from .context.step_context import Lookahead, SkipWindow, StepContext
from .errors import InvalidRule, UnknownRule
from .recording import Recording
from .rule_confidence import as_earned, calibrated

#: Phases of a step, in order; a finding of an earlier phase is nearer to the root cause.
CONFIGURATION, FORWARD, LOSS, BACKWARD, OPTIMIZER = range(5)

#: What the first record after a structure carries.
NEW_STRUCTURE: Final = "structure/new"

#: `memory` is whatever the rule's own factory makes; the table cannot know its type, hence Any.
Check = Callable[[StepContext, Any], Iterable[Finding]]
#: Returns for how many of the next records the check would yield nothing, and how its state learns of them.
FindSkipWindow = Callable[[Lookahead, Any], SkipWindow | None]
Asks = Literal["", "intent", "reference"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as the table holds it.

    Args:
        name: Hyphenated, e.g. `dead-units`.
        cause: The cause that its findings carry: the name with underscores.
        needs: What must be recorded: subjects (`gradient`), scalars (`scalar/loss`), events (`event/resume_seam`),
            `structure`, any `record`. The check is called for every record that carries one of them.
        triggers: Calls the check only for records that carry one of these, written as in `needs`. `NEW_STRUCTURE` is
            carried by the first record after the structure, and after a change of it.
        phase: Where in the step the cause acts: `CONFIGURATION`, `FORWARD`, `LOSS`, `BACKWARD` or `OPTIMIZER`.
        check: Yields the findings of one record. Keeps its state in `memory`.
        memory: Makes the rule's state at the start of a run; None when it has none.
        warm_up: Records of each need that must have been seen before silence of the rule means anything.
        essential: True when a run cannot be called healthy without it.
        is_fact: True when it decides without a threshold.
        is_optional: True when only some trainings record what it needs; a run without it has nothing to report.
        asks: What its findings need that no run can tell: the person's `intent`, or a `reference` to compare with.
        fires_on: Recordings on which it must report its cause.
        silent_on: Recordings on which it must report nothing.
        text: The docstring of the check: its page in the catalogue.
        skip_window: Looks ahead in a burst of records and returns how many of them the check can skip.
    """

    name: str
    cause: str
    needs: tuple[str, ...]
    phase: int
    check: Check
    memory: Callable[[], object] | None
    warm_up: int
    essential: bool
    is_fact: bool
    is_optional: bool
    asks: Asks
    fires_on: tuple[Recording, ...]
    silent_on: tuple[Recording, ...]
    text: str
    triggers: tuple[str, ...] = ()
    skip_window: FindSkipWindow | None = None

    def sign(self, finding: Finding) -> Finding:
        """Return the finding with this rule's name, cause and phase, its calibrated confidence and earned severity.

        Args:
            finding: As `StepContext.finding` made it; one that names a rule already is returned as it is.
        """
        if finding.rule:
            return finding
        micro_step, _, position = finding.order
        is_claim = finding.severity != "info"
        signed = replace(
            finding,
            rule=self.name,
            cause=self.cause,
            confidence=calibrated(self.name, finding.confidence, asks=self.asks) if is_claim else finding.confidence,
            order=(micro_step, self.phase, position),
        )
        return as_earned(signed)


#: Every rule by its name, in the order of the catalogue.
RULES: Final[dict[str, Rule]] = {}


def rule(
    name: str,
    *,
    needs: tuple[str, ...],
    phase: int,
    fires_on: tuple[Recording, ...],
    silent_on: tuple[Recording, ...],
    memory: Callable[[], object] | None = None,
    warm_up: int = 1,
    essential: bool = False,
    is_fact: bool = False,
    is_optional: bool = False,
    asks: Asks = "",
    triggers: tuple[str, ...] = (),
    skip_window: FindSkipWindow | None = None,
    asked_on: tuple[str, ...] = (),
    rests: FindSkipWindow | None = None,
) -> Callable[[Check], Check]:
    """Return a decorator that enters the check into `RULES`; see `Rule` for the arguments.

    `asked_on` and `rests` are the former names of `triggers` and `skip_window`.

    Raises:
        InvalidRule: The name is taken, or there is no docstring or no example.
    """
    if asked_on or rests:
        warnings.warn("rule(asked_on=, rests=) are now triggers= and skip_window=", DeprecationWarning, stacklevel=2)

    def enter(check: Check) -> Check:
        if name in RULES:
            raise InvalidRule(f"rule {name!r} is entered twice; give the second one another name")
        if not (check.__doc__ and fires_on and silent_on and needs):
            raise InvalidRule(f"rule {name!r} lacks one of docstring, needs=, fires_on= and silent_on=")
        RULES[name] = Rule(
            name=name,
            cause=name.replace("-", "_"),
            needs=needs,
            phase=phase,
            check=check,
            memory=memory,
            warm_up=warm_up,
            essential=essential,
            is_fact=is_fact,
            is_optional=is_optional,
            asks=asks,
            fires_on=fires_on,
            silent_on=silent_on,
            text=check.__doc__,
            triggers=triggers or asked_on,
            skip_window=skip_window or rests,
        )
        return check

    return enter


def find_rule(name: str) -> Rule:
    """Return the rule of that name.

    Raises:
        UnknownRule: There is none; the message names the nearest.
    """
    if name not in RULES:
        raise UnknownRule(f"no rule {name!r}{nearest(name, RULES)}")
    return RULES[name]
