"""How forwards of a torch model are followed for the order of its modules."""

from collections.abc import Callable
from typing import Any

from ...taps.handles import Several
from ..order import CallOrder
from .hooks import Hook
from .memory import ACCESS
from .sites import ModuleSites


def follow_calls(places: ModuleSites, known: Callable[[], None]) -> CallOrder:
    """The order of the modules, followed from the next forward on; `known` is called when it is."""

    def register(module: Any, hook: Any) -> Any:
        """The handle of a forward hook that sees keyword arguments among the inputs; of nothing on a hidden module."""
        if not places.is_visible(module):
            return Several(())
        return places.hooked(module).register_forward_hook(
            Hook(lambda one, inputs, options, output: hook(one, (inputs, options), output)), with_kwargs=True
        )

    return CallOrder(places.modules, ACCESS, register=register, children=lambda module: module.children(), known=known)
