"""Lets torch's encoder layers take their fast path in evaluation, which they leave where a module inside has hooks.

The fast path rounds otherwise, so a watched evaluation would differ from an unwatched one in its last digits.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch

from ....garbage import objects_of
from .torch_hooks import Hook

_TABLES = ("_forward_hooks", "_forward_pre_hooks")


def has_fast_path() -> bool:
    """Return whether any module of the process has a fast path, which it leaves while a mode lies on torch's stack."""
    return bool(objects_of(torch.nn.MultiheadAttention))


class FastPath:
    """Takes our hooks off the modules of encoder layers while the model is evaluated without gradients.

    Args:
        modules: The model's modules.
        entrances: Modules whose calls are forwards of the model; the hooks before them stay.

    Attributes:
        has_layers: Whether the model has any layer with a fast path.
    """

    def __init__(self, modules: Iterable[Any], entrances: Iterable[Any]) -> None:
        self._entrances = frozenset(map(id, entrances))
        self._layers = [module for module in modules if isinstance(module, torch.nn.TransformerEncoderLayer)]
        self.has_layers = bool(self._layers)
        self._parked: list[tuple[OrderedDict[int, Any], OrderedDict[int, Any]]] = []

    def forward_begins(self, *, is_recording: bool, is_training: bool) -> None:
        """Remove the hooks before a forward in evaluation mode without gradients; put them back before any other."""
        if is_recording or is_training:
            self.restore()
        elif not self._parked:
            self._park()

    def restore(self) -> None:
        """Put all hooks back in their order."""
        for hooks, before in self._parked:
            added = OrderedDict((number, hook) for number, hook in hooks.items() if number not in before)
            hooks.clear()
            hooks.update(before)
            hooks.update(added)
        self._parked = []

    def remove(self) -> None:
        """Put the hooks back and let them stay."""
        self.restore()
        self.has_layers = False

    def _park(self) -> None:
        for layer in self._layers:
            for module in layer.modules():
                if id(module) in self._entrances:
                    continue
                for name in _TABLES:
                    hooks = getattr(module, name)
                    ours = [number for number, hook in hooks.items() if isinstance(hook, Hook)]
                    if ours:
                        self._parked.append((hooks, OrderedDict(hooks.items())))
                        for number in ours:
                            del hooks[number]
