"""The table of rules: what a rule is, what it needs to see, and the decorator that enters it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..storage import Finding, nearest
from .context.step_context import Moment, Rest, Stretch
from .errors import InvalidRule, UnknownRule
from .recording import Recording

#: Phases of a step, in the order in which they happen; a finding of an earlier phase is nearer to the root.
CONFIGURATION, FORWARD, LOSS, BACKWARD, OPTIMIZER = range(5)

#: What the first record after a structure carries.
NEW_STRUCTURE: Final = "structure/new"

#: `memory` is whatever the rule's own factory makes; the table cannot know its type, hence Any.
Check = Callable[[Moment, Any], Iterable[Finding]]
#: For how many of the next records the check would yield nothing, and what it would remember of them; None for none.
Rests = Callable[[Stretch, Any], Rest | None]
Asks = Literal["", "intent", "reference"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as the table holds it.

    Args:
        name: Hyphenated, e.g. `dead-units`.
        cause: The word of the vocabulary of diagnosis that its findings carry.
        needs: What must have been recorded: subjects (`gradient`), scalars (`scalar/loss`), events
            (`event/resume_seam`), `structure`, any `record`. The check is called for every record that carries one.
        asked_on: Of what a record may carry, as in `needs`, that which makes the check be called; all that it needs
            when empty. `NEW_STRUCTURE` is carried by the first record after the structure, or a change of it.
        phase: Where in the step the cause acts: `CONFIGURATION`, `FORWARD`, `LOSS`, `BACKWARD` or `OPTIMIZER`.
        check: Yields the findings of one record. Keeps what it must remember in `memory`.
        memory: Makes the rule's memory at the start of a run; None when it needs none.
        warm_up: Records of each need that must have been seen before silence of the rule means anything.
        essential: True when a run cannot be called healthy without it.
        is_fact: True when it decides without a threshold.
        is_optional: True when what it needs exists in some trainings only; then a run without it has nothing to report.
        asks: What its findings need that no run can tell: the person's `intent`, or a `reference` to compare with.
        fires_on: Recordings on which it must report its cause.
        silent_on: Recordings on which it must report nothing.
        text: The docstring of the check: its page in the catalogue.
        rests: Tells, where records come in bursts, for how many of the next ones the check need not be called.
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
    asked_on: tuple[str, ...] = ()
    rests: Rests | None = None

    @property
    def speaker(self) -> tuple[str, str, int]:
        """What its findings carry of it."""
        return self.name, self.cause, self.phase


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
    asked_on: tuple[str, ...] = (),
    rests: Rests | None = None,
) -> Callable[[Check], Check]:
    """A decorator that enters the check into `RULES`; see `Rule` for the arguments.

    Raises:
        InvalidRule: The name is taken, or there is no docstring or no example.
    """

    def enter(check: Check) -> Check:
        if name in RULES:
            raise InvalidRule(f"rule {name!r} is entered twice; give the second one a name of its own")
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
            asked_on=asked_on,
            rests=rests,
        )
        return check

    return enter


def find_rule(name: str) -> Rule:
    """The rule of that name.

    Raises:
        UnknownRule: There is none; the message names the nearest.
    """
    if name not in RULES:
        raise UnknownRule(f"no rule {name!r}{nearest(name, RULES)}")
    return RULES[name]
