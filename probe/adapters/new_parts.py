"""Modules and parameters that a model has got since its training began: they are recorded, and the store is told."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from ...storage.records import Json
from ..configuration.select import choose_sites
from ..recording.recorder import Recorder
from .left_out import Choosing
from .order import CallOrder

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
