"""The hooks on the watched cells of a MindSpore model, and on its parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...recording.recorder import Recorder
from ...taps.forward import ForwardTaps
from ...taps.handles import Several
from ...taps.inputs import InputTaps
from ...taps.local_gradients import watch_local_gradients
from ...taps.site_hooks import SiteHooks
from .hooks import Hook
from .memory import ACCESS


class ModuleHooks:
    """Puts hooks on cells that the configuration picks; what the model itself is called with is seen at its entrance.

    Args:
        cells: By site.
    """

    def __init__(self, recorder: Recorder, cells: Mapping[str, Any], taps: ForwardTaps) -> None:
        self._recorder, self._cells, self._taps = recorder, cells, taps
        self._inputs = InputTaps(recorder, ACCESS, taps.counts)
        self._inputs_of_model = self._inputs.hook("") if self._inputs.is_wanted else None
        self._sites = SiteHooks(recorder, self._register)
        self._inside: list[Any] = []

    def watch(self, sites: Sequence[str]) -> None:
        """Nothing; these sites are watched, and no others."""
        self._sites.watch(sites)

    def watch_inside(self, named: Mapping[str, Any]) -> None:
        """Nothing; there are hooks on what looks at single parameters.

        Args:
            named: All parameters by their sites.
        """
        self._inside = [*watch_local_gradients(named.items(), ACCESS, self._recorder)]

    def enter_model(self, model: Any, inputs: Any, options: Mapping[str, Any]) -> None:
        """Nothing; the model is called with these."""
        if self._inputs_of_model is not None and "" in self._sites:
            self._inputs_of_model(model, inputs, options)

    def remove(self) -> None:
        """Nothing; all hooks are off for good."""
        for handle in (*self._inside, self._sites):
            handle.remove()
        self._inside = []

    def _register(self, site: str, _is_again: bool) -> Several:
        cell = self._cells[site]
        handles = [cell.register_forward_hook(Hook(self._taps.hook(site)))]
        if self._inputs.is_wanted and site:
            hook = Hook(self._inputs.hook(site))
            handles.append(cell.register_forward_pre_hook(hook, with_kwargs=True))
        return Several(handles)
