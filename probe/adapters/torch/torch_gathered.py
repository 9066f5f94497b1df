"""Whether the whole weights that FSDP2 has gathered are those whose shards the optimizer is about to step."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as distributed

from .torch_tensors import is_remote


def stale_gathered(model: Any) -> list[str]:
    """Return the parameters whose gathered copy is not renewed: its part of this rank is not this rank's shard.

    Looked at are copies that are still there before the optimizer's step, on the host, of the shard's element type.
    What is resharded after the backward pass is gathered anew anyway.
    """
    names = {id(module): name for name, module in model.named_modules()}
    found = []
    for parameter in _gathered(model):
        owner = parameter._module_info
        if not _is_renewed(parameter.sharded_param, parameter._unsharded_param):
            found.append(".".join(filter(None, (names.get(id(owner.module), ""), owner.param_name))))
    return found


def _gathered(model: Any) -> Iterator[Any]:
    """Yield FSDP2's own records of the parameters that are gathered now; nothing where they look otherwise."""
    wrapper = getattr(getattr(distributed, "fsdp", None), "FSDPModule", ())
    for module in model.modules():
        if isinstance(module, wrapper):
            group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None)
            for parameter in getattr(group, "fsdp_params", ()):
                whole = getattr(parameter, "_unsharded_param", None)
                if isinstance(whole, torch.Tensor) and whole.untyped_storage().nbytes() and not is_remote(whole):
                    yield parameter


def _is_renewed(shard: Any, whole: torch.Tensor) -> bool:
    split = [axis for axis, placement in enumerate(shard.placements) if not placement.is_replicate()]
    place, local = shard.device_mesh.get_coordinate(), shard.detach().to_local()
    if len(split) != 1 or place is None or local.dtype != whole.dtype or not shard.placements[split[0]].is_shard():
        return True
    axis = split[0]
    parts = whole.detach().chunk(shard.device_mesh.size(axis), shard.placements[axis].dim)
    if place[axis] >= len(parts):
        return True
    part = parts[place[axis]]
    return part.shape != local.shape or bool(torch.equal(part, local))
