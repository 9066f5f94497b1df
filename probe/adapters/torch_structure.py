"""What a torch model is made of: modules in call order with the edges between them, parameters, optimizers."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ...storage.records import Json
from ...storage.run import ModuleInfo, OptimizerInfo, ParameterInfo
from .torch_forward import tensors_in
from .torch_memory import Tensor

_FARTHEST = 200


class CallTrace:
    """Follows the first forward through hooks of its own, which it takes off at its end.

    An input's origin is the module whose output it is, by identity, or by the autograd graph between them, so that
    `x + f(x)` has the origins of both. The tensors of this one forward are kept until it ends, so that none is confused
    with another at the same address.
    """

    def __init__(self, modules: Mapping[str, Any], root: Any) -> None:
        self.order: dict[str, int] = {}
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.is_complete = False
        self._producers: dict[int, str] = {}
        self._nodes: dict[Any, str] = {}
        self._kept: list[Tensor] = []
        self._handles = [
            module.register_forward_hook(self._hook(site, module is root), with_kwargs=True)
            for site, module in modules.items()
        ]

    def stop(self) -> None:
        """Takes the hooks off and lets go of every tensor."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._producers, self._nodes, self._kept = [], {}, {}, []

    def _hook(self, site: str, is_root: bool) -> Any:
        def after_forward(_module: Any, inputs: Any, options: Any, output: Any) -> None:
            if site not in self.order:
                self.inputs[site] = tuple(dict.fromkeys(self._origins([inputs, options])))
                self.order[site] = len(self.order)
            for _, tensor in tensors_in(output):
                self._kept.append(tensor)
                self._producers[id(tensor)] = site
                if tensor.grad_fn is not None:
                    self._nodes[tensor.grad_fn] = site
            if is_root:
                self.is_complete = True
                self.stop()

        return after_forward

    def _origins(self, inputs: Any) -> Iterable[str]:
        for _, tensor in tensors_in(inputs):
            if id(tensor) in self._producers:
                yield self._producers[id(tensor)]
            elif tensor.grad_fn is not None:
                yield from self._behind(tensor.grad_fn)

    def _behind(self, node: Any) -> list[str]:
        found, seen, waiting = [], {node}, [node]
        while waiting and len(seen) < _FARTHEST:
            node = waiting.pop()
            if node in self._nodes:
                found.append(self._nodes[node])
                continue
            fresh = [before for before, _ in node.next_functions if before is not None and before not in seen]
            seen.update(fresh)
            waiting += fresh
        return found


def module_infos(modules: Mapping[str, Any], trace: CallTrace) -> tuple[ModuleInfo, ...]:
    """The modules, those that were called first, in order of completion."""
    infos = [
        ModuleInfo(
            site,
            type(module).__name__,
            trace.order.get(site, -1),
            trace.inputs.get(site, ()),
            not any(True for _ in module.children()),
        )
        for site, module in modules.items()
    ]
    return tuple(sorted(infos, key=lambda info: (info.order < 0, info.order)))


def parameter_infos(named: Iterable[tuple[str, Tensor]], optimizers: Iterable[Any]) -> tuple[ParameterInfo, ...]:
    """The parameters in model order; those that share memory have the same `storage`."""
    groups = {
        id(parameter): (number, group_number)
        for number, optimizer in enumerate(optimizers)
        for group_number, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }
    storages: dict[int, int] = {}
    return tuple(
        ParameterInfo(
            name,
            tuple(parameter.shape),
            str(parameter.dtype).removeprefix("torch."),
            parameter.requires_grad,
            groups.get(id(parameter)),
            storages.setdefault(_memory(parameter), len(storages)),
        )
        for name, parameter in named
    )


def optimizer_infos(optimizers: Iterable[Any]) -> tuple[OptimizerInfo, ...]:
    """Class and options of every optimizer; options that are no plain values are left out."""
    return tuple(
        OptimizerInfo(
            type(optimizer).__name__,
            tuple(
                {k: v for k, x in group.items() if k != "params" and (v := _plain(x)) is not ...}
                for group in optimizer.param_groups
            ),
        )
        for optimizer in optimizers
    )


def _memory(parameter: Tensor) -> int:
    return int(parameter.data_ptr()) or id(parameter)


def _plain(value: Any) -> Json | Any:  # Any: the ellipsis stands for "no plain value"
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else ...
    if isinstance(value, list | tuple):
        inner = [_plain(one) for one in value]
        return ... if ... in inner else inner
    return value if value is None or isinstance(value, bool | int | float | str) else ...
