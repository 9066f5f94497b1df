"""Which modules and parameters are recorded: as the configuration picks them, and as the model grows."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ...storage.records import Json
from ..configuration.site_selection import choose_sites
from ..recording.recorder import Recorder
from .call_order import CallOrder


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


#: Sites that an event names.
_MOST_NAMED: Final = 16


class _Facts(Protocol):
    def modules_changed(self) -> None:
        """Nothing; the model has other modules and parameters than before."""


class NewParts:
    """Takes in what has joined a model or taken the place of something there.

    Args:
        modules: By site, as they are whenever something is taken in.
    """

    def __init__(
        self, modules: Mapping[str, Any], view: Choosing, recorder: Recorder, order: CallOrder, facts: _Facts
    ) -> None:
        self._modules, self._view, self._recorder = modules, view, recorder
        self._order, self._facts = order, facts

    def record(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The sites to watch from now on; the parameters that the configuration picks are recorded, new ones as well.

        Args:
            named: All parameters by their sites.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config, is_late=True)
        self._view.exchange((name, named[name]) for name in names)
        self._view.add((name, named[name]) for name in names)
        return sites

    def tell(self, changed: Collection[str]) -> None:
        """Nothing; at these sites there are other modules than before, or none: the next forward tells their order."""
        self._facts.modules_changed()
        self._order.stop()
        self._order.begin()
        told: list[Json] = [*sorted(changed)[:_MOST_NAMED]]
        self._recorder.event("modules_changed", sites=told, count=len(changed))


class _View(Protocol):
    def add(self, named: Iterable[tuple[str, Any]]) -> bool:
        """Whether any of these parameters was new; they join at the end."""

    def choose(self, named: Iterable[tuple[str, Any]]) -> None:
        """Nothing; only these are recorded from now on."""


class Selection:
    """Has the picked parameters recorded, and says which modules are to be watched.

    Args:
        modules: By site, as they are whenever they are asked for.
    """

    def __init__(self, modules: Mapping[str, Any], view: _View, recorder: Recorder) -> None:
        self._modules, self._view, self._recorder = modules, view, recorder

    def begin(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The sites to watch from the first step on.

        Args:
            named: All parameters by their sites.

        Raises:
            SiteNotFound: A pattern matches nothing.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config)
        self._view.add((name, named[name]) for name in names)
        return sites

    def change(self, named: Mapping[str, Any]) -> tuple[str, ...]:
        """The sites to watch from now on; parameters that are picked no more are left out.

        Raises:
            SiteNotFound: A pattern matches nothing; what is recorded stays as it is.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config, is_under_way=True)
        self._view.choose((name, named[name]) for name in names)
        return sites
