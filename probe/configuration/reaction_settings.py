"""How a person asks for it.

on_finding: stop                                       # at the first error
on_finding:
  - {do: checkpoint, severity: error, keep: 2}         # model and optimizers, beside the run
  - {do: skip_step}                                    # leave out updates whose gradient is not finite
  - {do: callback, call: "alerts:page_me", causes: [loss_spike]}
  - {do: pause, causes: ["watchpoint/*"], severity: info}   # wait for `mindscope attach`
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import escape
from typing import Literal

from pydantic import Field

from ...storage import SEVERITIES, Finding, Severity
from ...storage.watch_conditions import parse_condition
from .config_fields import Contradiction, Number, Section, Switch, Whole

#: What is done about an update with a gradient that is not finite: nothing, skip it, or stop the training before it.
Refusal = Literal["", "skip", "stop"]
Deed = Literal["warn", "stop", "skip_step", "checkpoint", "callback", "pause"]

#: Causes that are known before the weights move, so that the step can still be skipped.
_BEFORE_THE_UPDATE = ("non_finite_activation", "non_finite_loss", "non_finite_gradient")


class Reaction(Section):
    """One thing to do about some findings.

    Args:
        do: `warn`: the log says it, as it always does. `stop`: `TrainingStopped` is raised. `skip_step`: updates whose
            gradient holds NaN or infinity are not made. `checkpoint`: the state is saved. `callback`: `call` is called
            with the finding. `pause`: the training waits until somebody lets it go on.
        causes: Globs over causes and over rules; any of them.
        severity: The least that counts.
        call: `module:function` for `callback`.
        keep: Checkpoints that are kept, the newest.
        folder: Where they go; beside the run by default, which a store in a database cannot offer.
    """

    do: Deed
    causes: tuple[str, ...] = Field(default=("*",), min_length=1)
    severity: Severity = "error"
    call: str | None = None
    keep: Whole = Field(default=3, ge=1)
    folder: str | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a contradiction where an action lacks what it needs, or is not possible for these causes."""
        if (self.do == "callback") != (self.call is not None):
            yield Contradiction(
                ("do", "call"), "`call: module:function` belongs to `do: callback`, and `do: callback` needs it"
            )
        if self.call is not None and not all(self.call.partition(":")):
            yield Contradiction(("call",), f"call {self.call!r} must read module:function")
        if self.do == "skip_step" and self.causes != ("*",) and not self.is_before_the_update:
            yield Contradiction(
                ("do", "causes"),
                f"skip_step can only be for {', '.join(_BEFORE_THE_UPDATE)}, got causes {', '.join(self.causes)}: "
                f"of the others nothing is known before the weights have moved",
            )

    @property
    def is_before_the_update(self) -> bool:
        """Whether it is about something that is known while the update can still be left out."""
        return any(fnmatchcase(name, glob) for name in _BEFORE_THE_UPDATE for glob in self.causes)

    def answers(self, finding: Finding) -> bool:
        """Return whether the reaction applies to this finding."""
        is_grave = SEVERITIES.index(finding.severity) >= SEVERITIES.index(self.severity)
        return is_grave and any(
            fnmatchcase(name, glob) for name in (finding.cause, finding.rule) for glob in self.causes
        )


class WebhookSettings(Section):
    """An address that is notified of findings.

    Args:
        severity: The least that is told.
        timeout_s: After which one try of a delivery is given up.
        allow_private: Whether the address may be of this machine or a private network.
    """

    url: str = Field(pattern=r"^https?://[^\s/]+")
    severity: Severity = "warning"
    timeout_s: Number = Field(default=5.0, gt=0.0, allow_inf_nan=False)
    allow_private: Switch = False


class Watch(Section):
    """A watchpoint with more settings than its condition.

    Args:
        pause: Make the training wait at the end of the step that meets it.
    """

    when: str
    name: str | None = None
    severity: Severity = "warning"
    pause: Switch = False


def as_watch(value: object) -> object:
    """Convert a bare condition to a watchpoint."""
    return {"when": value} if isinstance(value, str) else value


def as_reactions(value: object) -> object:
    """Convert one word, one reaction or several to a list of reactions."""
    if value is None:
        return value
    several = value if isinstance(value, list | tuple) else [value]
    return [{"do": reaction} if isinstance(reaction, str) else reaction for reaction in several]


def refusal_of(settings: Sequence[Reaction]) -> Refusal:
    """Return what the reactions do about updates that would spoil the weights."""
    if any(reaction.do == "stop" and reaction.is_before_the_update for reaction in settings):
        return "stop"
    return "skip" if any(reaction.do == "skip_step" for reaction in settings) else ""


def saving(settings: Sequence[Reaction]) -> tuple[Reaction, ...]:
    """Return the reactions that save the training's state."""
    return tuple(reaction for reaction in settings if reaction.do == "checkpoint")


def pauses_of(watchpoints: Iterable[Watch]) -> tuple[Reaction, ...]:
    """Return the reactions that watchpoints with `pause` stand for."""
    return tuple(
        Reaction(
            do="pause",
            causes=(escape(f"watchpoint/{watchpoint.name or parse_condition(watchpoint.when).text}"),),
            severity="info",
        )
        for watchpoint in watchpoints
        if watchpoint.pause
    )
