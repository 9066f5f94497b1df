"""Who is asked in a step, by the moment: what is due is worked out once for all steps where the same is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..collectors.collector import COLLECTORS, Collect, Step


@runtime_checkable
class Prepares(Protocol):
    """A quantity that has to see the weights before they move."""

    def prepare(self, step: Step) -> None:
        """Called before the optimizer moves the weights of a step at which the quantity is due."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The collectors of steps that are due, by name, in the order of the catalogue.

    Args:
        prepare: What those of `after` do before the weights move.
    """

    before: tuple[tuple[str, Collect], ...]
    after: tuple[tuple[str, Collect], ...]
    prepare: tuple[tuple[str, Callable[[Step], None]], ...]


def plan_of(due: frozenset[str], collect: Mapping[str, Collect]) -> Plan:
    """The plan of the steps at which these are due.

    Args:
        collect: The monitor's own instances.
    """
    asked = [(name, one, COLLECTORS[name].at) for name, one in collect.items() if name in due]
    before = tuple((name, one) for name, one, moment in asked if moment == "before_step")
    after = tuple((name, one) for name, one, moment in asked if moment == "after_step")
    return Plan(before, after, tuple((name, one.prepare) for name, one in after if isinstance(one, Prepares)))
