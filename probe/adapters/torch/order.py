"""In which order the modules of a torch model are called, and whose outputs each of them consumes."""

from collections.abc import Callable
from typing import Any

from ....storage.run import ModuleInfo
from ...taps.handles import Several
from ..trace import CallTrace
from .hooks import Hook
from .memory import ACCESS
from .sites import ModuleSites


class CallOrder:
    """Follows forwards until the order is known, and again when the model has got other modules.

    Args:
        known: Called when it is.

    Attributes:
        trace: What follows.
        is_known: Whether it has come to its end.
    """

    def __init__(self, places: ModuleSites, known: Callable[[], None]) -> None:
        self._places, self._known = places, known
        self.begin()

    def begin(self) -> None:
        """Nothing; the next forward is followed."""
        self.is_known = False
        self.trace = CallTrace(self._places.modules, ACCESS, self._register)

    def step_ends(self) -> None:
        """Nothing; a model that is only a list of parts has been called as far as it ever is."""
        self.trace.finish()
        if self.trace.is_complete and not self.is_known:
            self.is_known = True
            self._known()

    def stop(self) -> None:
        """Nothing; no forward is followed any more."""
        self.trace.stop()

    def modules(self) -> tuple[ModuleInfo, ...]:
        """The modules in the order of their first calls, as far as known."""
        return self.trace.modules(lambda module: module.children())

    def _register(self, module: Any, hook: Any) -> Any:
        """The handle of a forward hook that sees keyword arguments among the inputs; of nothing on a hidden module."""
        if not self._places.is_visible(module):
            return Several(())
        return self._places.hooked(module).register_forward_hook(
            Hook(lambda one, inputs, options, output: hook(one, (inputs, options), output)), with_kwargs=True
        )
