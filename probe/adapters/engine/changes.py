"""What joins or leaves an engine model while it trains: parameters and cells that were put in later."""

from collections.abc import Callable
from typing import Any

from ..new_parts import NewParts
from .module_hooks import ModuleHooks
from .sites import CellSites


class Changes:
    """Has watched what a model has got since it was last looked at.

    Args:
        changed: Called when it has got anything.
    """

    def __init__(
        self, model: Any, places: CellSites, hooks: ModuleHooks, parts: NewParts, changed: Callable[[], None]
    ) -> None:
        self._model, self._places, self._hooks, self._parts = model, places, hooks, parts
        self._changed = changed

    def take_in(self) -> None:
        """Nothing; the model has other cells or parameters than before, and what the configuration picks is watched."""
        changed, named = self._places.look(), dict(self._model.parameters_and_names())
        sites = self._parts.record(named)
        self._changed()
        self._hooks.exchange(sites, changed, named)
        if changed:
            self._parts.tell(changed)
