"""Finds the model of a torch script that does not know it is watched."""

import logging
from collections.abc import Callable
from weakref import WeakSet, ref

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .torch_adapter import TorchAdapter
from .torch_training import Arguments, closure_of, with_report

_log = logging.getLogger(__name__)
#: Modules called in evaluation mode that are remembered until an optimizer steps one of them.
_MOST_EVALUATED = 256


class TorchFinder:
    """Waits for the first module that is trained, and hands over an adapter of it, once.

    That is the outermost module called in training mode with gradients on that has a trainable parameter. A model
    trained in evaluation mode is found when an optimizer has stepped it. The adapter finds the optimizers as they step;
    it is told of one that calls the model in its closure, which is stepping already.

    Args:
        found: Called with the adapter; attaches it before it returns.
    """

    def __init__(self, found: Callable[[TorchAdapter], object]) -> None:
        self._found = found
        self._adapter: TorchAdapter | None = None
        self._evaluated: list[ref[torch.nn.Module]] = []
        self._seen: WeakSet[Optimizer] = WeakSet()
        self._elsewhere: list[str] = []
        self._is_first = True
        self._closures = register_optimizer_step_pre_hook(self._look_into_closure)
        self._handles = [
            register_module_forward_pre_hook(self._look_at_module),
            register_optimizer_step_post_hook(self._look_at_optimizer),
        ]

    def stop(self) -> None:
        """Remove the global hooks."""
        for handle in (self._closures, *self._handles):
            handle.remove()
        self._handles = []

    def left_out(self) -> str:
        """Return a description of what was trained beside the found model; empty where nothing is known."""
        if self._adapter is None or not self._elsewhere:
            return ""
        return (
            f"only {type(self._adapter.model).__name__} was recorded, the first model that was trained; of others, "
            f"{', '.join(self._elsewhere)}: call mindscope.watch in the script, once for each model"
        )

    def _look_at_module(self, module: torch.nn.Module, _inputs: object) -> None:
        if self._adapter is not None or not torch.is_grad_enabled():
            return
        if isinstance(module, torch.jit.ScriptModule) or not any(
            parameter.requires_grad for parameter in module.parameters()
        ):
            return
        if not module.training:
            if len(self._evaluated) < _MOST_EVALUATED:
                self._evaluated.append(ref(module))
            return
        self._take(module).forward_begins()  # the model's own hook was attached too late for this call

    def _take(self, module: torch.nn.Module) -> TorchAdapter:
        self._handles.pop(0).remove()
        self._closures.remove()
        self._adapter = TorchAdapter(module)
        self._evaluated = []
        self._found(self._adapter)
        return self._adapter

    def _look_into_closure(
        self, optimizer: Optimizer, arguments: tuple[object, ...], options: dict[str, object]
    ) -> Arguments | None:
        """Return the arguments with a closure that reports its first evaluation; None without a closure."""
        if self._adapter is not None or closure_of(arguments, options) is None:
            return None
        return with_report(arguments, options, lambda: self._evaluated_in(optimizer))

    def _evaluated_in(self, optimizer: Optimizer) -> None:
        if self._adapter is not None:
            self._adapter.closure_evaluated(optimizer)

    def _look_at_optimizer(self, optimizer: Optimizer, _arguments: object, _options: object) -> None:
        """Look once at each optimizer, and remember those that step another model."""
        if torch.compiler.is_compiling() or optimizer in self._seen:
            return
        self._seen.add(optimizer)
        stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if self._is_first:
            self._is_first = False
            self._look_at_the_first(optimizer, stepped)
        elif self._adapter is not None:
            known = {id(parameter) for parameter in self._adapter.model.parameters()}
            if not any(id(parameter) in known for parameter in stepped):
                self._elsewhere.append(f"{type(optimizer).__name__} stepped {len(stepped)} parameters")

    def _look_at_the_first(self, optimizer: Optimizer, stepped: list[torch.nn.Parameter]) -> None:
        """Find the model by this optimizer if none is found yet, and report its parameters that are not watched."""
        if self._adapter is None:
            ids = {id(parameter) for parameter in stepped}
            evaluated = (module for reference in self._evaluated if (module := reference()) is not None)
            model = next(
                (module for module in evaluated if any(id(parameter) in ids for parameter in module.parameters())), None
            )
            if model is not None:
                self._take(model)
        known = set() if self._adapter is None else {id(parameter) for parameter in self._adapter.model.parameters()}
        others = sum(id(parameter) not in known for parameter in stepped)
        if others:
            watched = "no model" if self._adapter is None else type(self._adapter.model).__name__
            _log.warning(
                "%d of the %d parameters that %s steps belong to other modules than the watched one (%s); "
                "call mindscope.watch in the script to choose the model",
                others,
                len(stepped),
                type(optimizer).__name__,
                watched,
            )
