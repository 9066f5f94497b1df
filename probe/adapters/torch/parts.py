"""Which part of a torch tensor is this process's to read, and whether it lies on a device that measures by itself."""

from collections.abc import Sequence
from itertools import repeat
from typing import Final

import torch
from torch._subclasses import FakeTensor

from ...access.tensors import Tensor, Unsupported

#: Classes whose tensors have memory of their own; others may only wrap one.
PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
#: Whether tensors of the processor take the way of tensors on a device, for tests of that way.
is_any_taken_for_remote = False


def own_part(tensor: Tensor) -> Tensor:
    """The tensor itself; of a DTensor the part that this rank holds, of one that is still on its way the tensor come.

    Raises:
        Unsupported: It only stands for a tensor, as a fake one does, and has no memory to read.
    """
    if type(tensor) in PLAIN or tensor.numel() == 0 or _has_memory(tensor):
        return tensor
    held = local_part(tensor)
    if hasattr(held, "trigger_wait"):
        held = held.trigger_wait()
    if held.numel() and not _has_memory(held):
        raise Unsupported(f"a {type(tensor).__name__} that has no memory of its own cannot be read")
    return held


def local_part(tensor: Tensor) -> Tensor:
    """What a DTensor holds on this rank; any other tensor itself."""
    return tensor._local_tensor if hasattr(tensor, "_local_tensor") else tensor


def _has_memory(tensor: Tensor) -> bool:
    try:
        return not isinstance(tensor, FakeTensor) and bool(tensor.untyped_storage().data_ptr())
    except RuntimeError:  # as storages of wrappers say it
        return False


def is_remote(tensor: Tensor) -> bool:
    """Whether the tensor lies on a device that measures by itself."""
    return bool(tensor.is_cuda) or is_any_taken_for_remote


def may_travel(tensor: Tensor) -> bool:
    """Whether it does, whole, and may be asked for now: not while a CUDA graph is recorded."""
    is_there = is_remote(tensor) and not hasattr(tensor, "placements")
    return is_there and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def is_any_remote(tensors: Sequence[Tensor | None]) -> bool:
    """Whether one of them does."""
    return is_any_taken_for_remote or any(map(getattr, tensors, repeat("is_cuda"), repeat(False)))


def remote(tensor: Tensor) -> Tensor | None:
    """The part of this rank of a tensor on a CUDA device; None of any other tensor.

    Raises:
        Unsupported: It is sparse, quantized or complex, or lies in the memory of a CUDA graph that is being recorded.
    """
    if not (tensor.is_cuda or is_any_taken_for_remote):  # as `is_remote` says, without a call
        return None
    if tensor.layout is not torch.strided:
        raise Unsupported(f"{str(tensor.layout).removeprefix('torch.')} tensors are not supported, only dense ones are")
    if tensor.is_complex() or tensor.is_quantized:
        raise Unsupported(f"{str(tensor.dtype).removeprefix('torch.')} tensors are not supported, only real ones are")
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise Unsupported("what a CUDA graph computes is not seen; its first pass, before it is recorded, is")
    return own_part(tensor).resolve_neg()
