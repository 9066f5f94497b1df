"""Parameters that are no longer recorded: their rows stay, and nothing is found there."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["NOBODY", "Choosing", "with_gaps"]


class _Nobody:
    """A parameter without values, gradient or state."""

    grad = None

    def numpy(self) -> None:
        """Nothing."""


NOBODY: Final = _Nobody()


class Choosing(ABC):
    """A view of parameters of which some may be left out while the training runs."""

    _names: list[str]
    _left_out: frozenset[str]

    def choose(self, named: Iterable[tuple[str, Any]]) -> None:  # Any: the framework's parameters
        """Nothing; only these are recorded from now on; the rows of others stay, and are empty."""
        chosen = dict(named)
        self._left_out = frozenset(self._names) - chosen.keys()
        self.exchange(chosen.items())
        self.add(chosen.items())
        self._renew()

    @abstractmethod
    def exchange(self, named: Iterable[tuple[str, Any]]) -> None:
        """Nothing; of two parameters of one name the one that is here now has the row."""

    @abstractmethod
    def add(self, named: Iterable[tuple[str, Any]]) -> bool:
        """Whether any of these parameters was new; they join at the end."""

    @abstractmethod
    def _renew(self) -> None:
        """Nothing; what is recorded has gaps where something is left out."""


def with_gaps(
    parameters: list[Any],  # Any: the framework's
    names: Sequence[str],
    left_out: Iterable[str],
    gap: object = NOBODY,
) -> list[Any]:
    """The parameters with a gap in place of those that are left out; where there are none, the very same list."""
    without = frozenset(left_out)
    if not without:
        return parameters
    return [gap if name in without else one for name, one in zip(names, parameters, strict=True)]
