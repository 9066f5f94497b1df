"""Notes, of models that return their loss, the calls of the parts that they hand their inputs to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from weakref import WeakSet

import torch

from ...aside import is_aside
from ...checks.loss_tape import tensors_in
from ...checks.model_call import ModelCall, call_of, outputs_of
from ...guard import Guard
from .torch_hooks import Hook
from .torch_patches import current_graph_task_id
from .torch_sites import takes_hooks

#: Parts of one step. Our choice.
_MOST_PARTS: Final = 4


class LossParts:
    """The parts of models that return their loss: what such a model answers tells nothing of single samples.

    Args:
        modules: The watched modules, by site.

    Attributes:
        calls: By site, the first call of each part that was given an input of its model.
    """

    def __init__(self, modules: Mapping[str, torch.nn.Module], guard: Guard) -> None:
        self._modules, self._guard = modules, guard
        self._returning: WeakSet[torch.nn.Module] = WeakSet()
        self._given: set[int] = set()
        self.calls: dict[str, ModelCall] = {}

    def answered(self, model: torch.nn.Module, outputs: Sequence[torch.Tensor]) -> None:
        """Take what a model has answered in a training forward."""
        if outputs and all(one.numel() == 1 for one in outputs):
            self._returning.add(model)

    def arm(self, models: Iterable[torch.nn.Module]) -> list[Any]:
        """Note the calls of the next step; return the handles of the hooks."""
        self.calls, handles = {}, list[Any]()
        sites = {id(module): site for site, module in self._modules.items()}
        for model in (one for one in models if one in self._returning and takes_hooks(one)):
            handles.append(model.register_forward_pre_hook(Hook(self._begins, self._guard), with_kwargs=True))
            parts = (one for one in model.children() if id(one) in sites and takes_hooks(one))
            for part in islice(parts, _MOST_PARTS):
                hook = Hook(self._noted(sites[id(part)]), self._guard)
                handles.append(part.register_forward_hook(hook, with_kwargs=True))
        return handles

    def _begins(self, _model: Any, arguments: tuple[Any, ...], keywords: Any) -> None:
        if not is_aside() and torch.is_grad_enabled():
            self._given = {one.data_ptr() for one in tensors_in([arguments, keywords]) if one.numel()}

    def _noted(self, site: str) -> Callable[..., None]:
        def note(part: Any, arguments: tuple[Any, ...], keywords: Any, output: Any = None) -> None:
            is_known = site in self.calls or is_aside() or current_graph_task_id() != -1
            if is_known or not any(one.grad_fn is not None for one in outputs_of(output)):
                return
            call = call_of(part, arguments, keywords)
            if any(one.data_ptr() in self._given for one in call.tensors().values()):
                kept = call.copied()
                if kept is not None:
                    self.calls[site] = kept

        return note
