"""Warns of reactions to bad values that may come late, because their subject is not recorded at every step."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from .config import Config
from .reaction_settings import Reaction

__all__ = ["late_reactions"]

#: Causes that a step's own record shows, each with the subject that shows it.
_SHOWN_BY: Final = {
    "non_finite_gradient": "gradient",
    "non_finite_activation": "activation",
    "non_finite_loss": "loss",
}
_DONE: Final = {
    "stop": "the training may go on for {} after the first bad value, and its weights with it",
    "checkpoint": "what is saved may be the state of {} after the first bad value",
}


def late_reactions(config: Config) -> tuple[str, ...]:
    """Return a warning for each `stop` or `checkpoint` for `non_finite_*` that may be late."""
    return tuple(
        dict.fromkeys(
            _in_words(reaction, subjects, config)
            for reaction in config.on_finding
            if reaction.do in _DONE and reaction.is_before_the_update and (subjects := _late(reaction, config))
        )
    )


def _late(reaction: Reaction, config: Config) -> tuple[str, ...]:
    """Return the needed subjects that are not recorded at every step; none where gradients show it in time."""
    if reaction.do == "stop":  # `stop` checks the gradients before the update, whatever its causes
        needed: tuple[str, ...] = ("gradient",)
        in_time = config.is_in_flight("gradient") and config.budget is None
    else:
        needed = tuple(
            subject for cause, subject in _SHOWN_BY.items() if any(fnmatchcase(cause, glob) for glob in reaction.causes)
        )
        in_time = False
    late = tuple(name for name in needed if config.budget is not None or not _is_at_every_step(config, name))
    return () if in_time or (late and needed[0] == "gradient" and "gradient" not in late) else late


def _is_at_every_step(config: Config, subject: str) -> bool:
    schedule = config.schedule(subject)
    return schedule.every == 1 and schedule.start == 0 and schedule.stop is None


def _in_words(reaction: Reaction, subjects: Sequence[str], config: Config) -> str:
    cadences = "; ".join(f"`{name}` {_when(config, name)}" for name in subjects)
    return (
        f"on_finding: {reaction.do} for {', '.join(reaction.causes)} rests on what is recorded: {cadences}; "
        f"{_DONE[reaction.do].format(_distance(config, subjects))}; "
        f"{_remedy(config, subjects)}"
    )


def _when(config: Config, subject: str) -> str:
    schedule = config.schedule(subject)
    if not schedule.is_ever_due:
        return "is never"
    if _is_at_every_step(config, subject):
        return "may be thinned by `budget`"
    if _is_regular(config, subject):
        return f"is at every {schedule.every} steps"
    return "is not at every step"


def _is_regular(config: Config, subject: str) -> bool:
    schedule = config.schedule(subject)
    return schedule.every > 1 and schedule.start == 0 and schedule.stop is None


def _distance(config: Config, subjects: Sequence[str]) -> str:
    """Describe how late the earliest of them may be."""
    if config.budget is not None or not all(_is_regular(config, name) for name in subjects):
        return "some steps"
    most = min(config.schedule(name).every for name in subjects) - 1
    return f"up to {most} step{'s' * (most > 1)}"


def _remedy(config: Config, subjects: Sequence[str]) -> str:
    ones = ", ".join(f"{name}: 1" for name in subjects[:1])
    without = " and no `budget`" if config.budget is not None else ""
    return f"`subjects: {{{ones}}}`{without} sees it in its own step"
