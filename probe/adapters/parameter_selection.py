"""Which modules and parameters are recorded: those that the configuration selects, also as the model grows."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from ...storage.records import Json
from ..configuration.site_selection import choose_sites
from ..recording.recorder import Recorder
from .call_order import CallOrder


class _MissingParameter:
    """A parameter without values, gradient or state."""

    grad = None

    def numpy(self) -> None:
        """Return None."""


MISSING: Final = _MissingParameter()


class Choosing(ABC):
    """A view of parameters, some of which may be excluded while the training runs."""

    _names: list[str]
    _left_out: frozenset[str]

    def choose(self, named: Iterable[tuple[str, Any]]) -> None:  # Any: the framework's parameters
        """Record only these from now on; the rows of others stay, and are empty."""
        chosen = dict(named)
        self._left_out = frozenset(self._names) - chosen.keys()
        self.exchange(chosen.items())
        self.add(chosen.items())
        self._renew()

    @abstractmethod
    def exchange(self, named: Iterable[tuple[str, Any]]) -> None:
        """Replace each parameter whose name now belongs to another object."""

    @abstractmethod
    def add(self, named: Iterable[tuple[str, Any]]) -> bool:
        """Add these parameters at the end; return whether any of them was new."""

    @abstractmethod
    def _renew(self) -> None:
        """Update the list of measured parameters, with a gap for each one that is left out."""


def with_gaps(
    parameters: list[Any],  # Any: the framework's
    names: Sequence[str],
    left_out: Iterable[str],
    gap: object = MISSING,
) -> list[Any]:
    """Return the parameters with a gap for each one that is left out; without any, return the same list."""
    without = frozenset(left_out)
    if not without:
        return parameters
    return [gap if name in without else parameter for name, parameter in zip(names, parameters, strict=True)]


#: Sites that an event names at most.
_MOST_NAMED: Final = 16


class _Facts(Protocol):
    def modules_changed(self) -> None:
        """Note that the modules or parameters of the model have changed."""


class NewParts:
    """Adds the modules and parameters that a model has gained or replaced.

    Args:
        modules: The modules by site; the mapping follows the model.
    """

    def __init__(
        self, modules: Mapping[str, object], view: Choosing, recorder: Recorder, order: CallOrder, facts: _Facts
    ) -> None:
        self._modules, self._view, self._recorder = modules, view, recorder
        self._order, self._facts = order, facts

    def record(self, named: Mapping[str, object]) -> tuple[str, ...]:
        """Record the parameters that the configuration selects, also new ones; return the sites to watch from now on.

        Args:
            named: All parameters by their sites.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config, is_late=True)
        self._view.exchange((name, named[name]) for name in names)
        self._view.add((name, named[name]) for name in names)
        return sites

    def report_changes(self, changed: Collection[str]) -> None:
        """Record that the modules at these sites have changed, and trace the call order again."""
        self._facts.modules_changed()
        self._order.stop()
        self._order.begin()
        sites: list[Json] = [*sorted(changed)[:_MOST_NAMED]]
        self._recorder.event("modules_changed", sites=sites, count=len(changed))


_Parameter = TypeVar("_Parameter")
_Recorded = TypeVar("_Recorded", contravariant=True)


class _ParameterView(Protocol[_Recorded]):
    def add(self, named: Iterable[tuple[str, _Recorded]]) -> bool:
        """Add these parameters at the end; return whether any of them was new."""

    def choose(self, named: Iterable[tuple[str, _Recorded]]) -> None:
        """Record only these from now on."""


class Selection(Generic[_Parameter]):
    """Selects the recorded parameters and the watched modules.

    Args:
        modules: The modules by site; the mapping follows the model.
    """

    def __init__(self, modules: Mapping[str, object], view: _ParameterView[_Parameter], recorder: Recorder) -> None:
        self._modules, self._view, self._recorder = modules, view, recorder

    def begin(self, named: Mapping[str, _Parameter]) -> tuple[str, ...]:
        """Return the sites to watch from the first step on.

        Args:
            named: All parameters by their sites.

        Raises:
            SiteNotFound: A pattern matches nothing.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config)
        self._view.add((name, named[name]) for name in names)
        return sites

    def change(self, named: Mapping[str, _Parameter]) -> tuple[str, ...]:
        """Return the sites to watch from now on; leave out parameters that are no longer selected.

        Raises:
            SiteNotFound: A pattern matches nothing; what is recorded stays as it is.
        """
        sites, names = choose_sites(self._modules, list(named), self._recorder.config, is_under_way=True)
        self._view.choose((name, named[name]) for name in names)
        return sites
