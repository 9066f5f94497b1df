"""What this rank holds of a model and which ranks are said to hold the same: names, shapes, placements and wrappers."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as distributed
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from ...facts.rank_facts import BUFFER, COARSE, CONSTANT, OF_DATA, number_of
from .torch_parameters import TorchView
from .torch_tensors import local_part

_Numbers = NDArray[np.float64]
#: Names of mesh axes along which ranks that share one batch lie.
_MODEL_AXES: Final = ("tp", "sp", "cp", "ep", "pp", "tensor", "sequence", "context", "expert", "pipe", "model")
_FINE: Final = (torch.float32, torch.float64)


class TorchCopies:
    """The parameters of a view and the buffers of a model, numbered so that ranks can tell what they share.

    Attributes:
        names: Of the parameters, and of the buffers behind them.
        buffers: Those of floating point.
        keys, declared, flags: `(n,)`, as `RankMessage` has them.
        part: A number of what the placements split among ranks that share a batch.
    """

    def __init__(self, model: Any, view: TorchView) -> None:
        self._model, self._view = model, view
        self.names: tuple[str, ...] = ()
        self.buffers: list[torch.Tensor] = []
        self.keys = self.declared = self.flags = np.empty(0)
        self.part = 0.0
        self._constant: dict[str, bool] = {}

    def refresh(self) -> bool:
        """Look at the model again; return whether anything has another name than before."""
        named = {name: one for name, one in self._model.named_buffers() if one.is_floating_point() and one.numel()}
        self.buffers = list(named.values())
        names = (*self._view.names, *named)
        if names == self.names:
            return False
        self.names = names
        tensors = [*self._view.parameters, *self.buffers]
        sharded = _sharded_over_data(self._model)
        wrapped = dict(_wrapped(self._model))
        self._note_constants(tensors)
        self.keys = np.array([_key(name, one) for name, one in zip(names, tensors, strict=True)])
        self.declared = np.array([_declared(one, wrapped.get(id(one))) for one in tensors])
        self.flags = np.array(
            [
                CONSTANT * self._constant[name]
                + BUFFER * (row >= len(self._view.names))
                + OF_DATA * (id(one) in sharded)
                + COARSE * (one.dtype not in _FINE)
                for row, (name, one) in enumerate(zip(names, tensors, strict=True))
            ],
            np.float64,
        )
        split = [f"{name} {_place(one, sharded)}" for name, one in zip(names, tensors, strict=True)]
        self.part = number_of("\n".join(split).encode())
        return True

    def are_compared(self) -> list[bool]:
        """Return which parameters have copies elsewhere, if any rank has: not those whose owner says that none has."""
        return [getattr(one, "allreduce", True) is not False and not _is_partial(one) for one in self._view.parameters]

    def _note_constants(self, tensors: Sequence[torch.Tensor]) -> None:
        """Note, once for each name, whether all elements are equal."""
        fresh = [(name, local_part(one)) for name, one in zip(self.names, tensors, strict=True)]
        fresh = [(name, part) for name, part in fresh if name not in self._constant]
        with torch.no_grad():
            found = [(name, _is_constant(part)) for name, part in fresh]
        away = [is_constant for _, is_constant in found if isinstance(is_constant, torch.Tensor)]
        arrived = iter(torch.stack(away).tolist() if away else ())
        for name, is_constant in found:
            self._constant[name] = next(arrived) if isinstance(is_constant, torch.Tensor) else is_constant


def settings_number(optimizers: Sequence[Any]) -> float:
    """Return a number of the plain options of all optimizers."""
    plain = (bool, int, float, str, tuple, type(None))
    options = [
        sorted((name, repr(value)) for name, value in group.items() if name != "params" and isinstance(value, plain))
        for optimizer in optimizers
        for group in optimizer.param_groups
    ]
    return number_of(repr(options).encode())


def _is_constant(part: torch.Tensor) -> bool | torch.Tensor:
    if part.numel() < 2 or part.layout is not torch.strided:
        return True
    values = part.detach()
    return (values == values.reshape(-1)[0]).all()


def _placements(tensor: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield name, coordinate and placement of every axis of the tensor's mesh; nothing of a plain tensor."""
    if hasattr(tensor, "placements"):
        mesh = tensor.device_mesh
        names = mesh.mesh_dim_names or [""] * mesh.ndim
        yield from zip(names, mesh.get_coordinate() or [-1] * mesh.ndim, tensor.placements, strict=True)


def _is_split(placement: Any) -> bool:
    return not (placement.is_replicate() or placement.is_partial())


def _is_partial(tensor: Any) -> bool:
    return any(placement.is_partial() for _, _, placement in _placements(tensor))


def _key(name: str, tensor: torch.Tensor) -> float:
    axes = [(place, str(placement)) for _, place, placement in _placements(tensor) if _is_split(placement)]
    return number_of(f"{name} {tuple(tensor.shape)} {axes}".encode())


def _declared(tensor: Any, group: float | None) -> float:
    """Return a number of the ranks among which copies of the tensor lie; NaN where nothing says so."""
    if group is not None:
        return group
    if not hasattr(tensor, "placements"):
        return float("nan")
    return number_of(repr(tensor.device_mesh.mesh.tolist()).encode())


def _wrapped(model: Any) -> Iterator[tuple[int, float]]:
    """Yield every parameter that a wrapper reduces, with a number of the ranks that it reduces it over."""
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            ranks = distributed.get_process_group_ranks(module.process_group)
            ignored = module.parameters_to_ignore
            for name, parameter in module.module.named_parameters():
                if name not in ignored:
                    yield id(parameter), number_of(repr(sorted(ranks)).encode())


def _sharded_over_data(model: Any) -> frozenset[int]:
    """Return the parameters that FSDP2 shards over ranks that read different data."""
    wrapper = getattr(getattr(distributed, "fsdp", None), "FSDPModule", ())
    modules = [module for module in model.modules() if isinstance(module, wrapper)]
    return frozenset(id(parameter) for module in modules for parameter in module.parameters())


def _place(tensor: torch.Tensor, sharded: frozenset[int]) -> list[int]:
    """Return the coordinates along which ranks that share a batch hold other parts of the tensor."""
    is_of_data = id(tensor) in sharded
    return [
        place
        for name, place, placement in _placements(tensor)
        if _is_split(placement) and (not is_of_data or name.lower() in _MODEL_AXES)
    ]
