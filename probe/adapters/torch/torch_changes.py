"""Modules and parameters that join a torch model while it trains."""

from collections.abc import Callable

import torch

from ..parameter_selection import NewParts
from .torch_module_hooks import TorchModuleHooks
from .torch_parameters import TorchView
from .torch_sites import ModuleSites, parameters_of

#: Due steps between two looks for changed modules when no forward was seen to begin.
_LOOK_EVERY = 10
#: Parameters of the model and of its optimizers, before the first look.
_NEVER_COUNTED = (-1, -1)


class TorchChanges:
    """Looks for modules and parameters that a model has gained, and watches them.

    Args:
        changed: Called when it has, unless that is how the training began.

    Attributes:
        named: All parameters by their sites, as they were seen last.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        module_sites: ModuleSites,
        view: TorchView,
        hooks: TorchModuleHooks,
        parts: NewParts,
        changed: Callable[[], None],
    ) -> None:
        self._model, self._module_sites, self._view = model, module_sites, view
        self._hooks, self._parts, self._changed = hooks, parts, changed
        self.named: dict[str, torch.nn.Parameter] = dict(parameters_of(model))
        self._counts, self._looks = _NEVER_COUNTED, 0

    def modules_changed(self) -> None:
        """Watch new modules before the forward that begins reaches them."""
        self._take_in(self._counts[1])

    def before_step(self) -> None:
        """Watch modules and parameters that have joined since the previous step."""
        total = 0
        for optimizer in self._view.optimizers:
            for group in optimizer.param_groups:
                total += len(group["params"])
        self._looks += 1
        is_due = not self._looks % _LOOK_EVERY and self._module_sites.has_changed()
        if is_due or (len(self.named), total) != self._counts:
            self._take_in(total)

    def _take_in(self, total: int) -> None:
        """Look at all modules and parameters again; `total` counts the parameters of all optimizers."""
        self.named = dict(parameters_of(self._model))
        changed = self._module_sites.look() if self._module_sites.has_changed() else frozenset()
        sites = self._parts.record(self.named)
        if self._counts != _NEVER_COUNTED:
            self._changed()
        if changed:
            self._hooks.exchange(sites, changed, self.named)
            self._parts.report_changes(changed)
        self._counts = (len(self.named), total)
