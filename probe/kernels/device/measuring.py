"""Chooses the kernel for the tensors of a call, and brings them into a form that it reads."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from .plain import measure_plainly

_READ = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def measure_on_device(tensors: Sequence[Any]) -> Any:
    """`(n, 10)` float64 on the device of the tensors, in the order of `STATISTICS`; nothing waits for it.

    Args:
        tensors: Real and dense, one or more, on one device.
    """
    held = [readable(one.detach()) for one in tensors]
    return _kernel_for(held[0].device.type)(held)


@cache
def _kernel_for(device: str) -> Callable[[Sequence[Any]], Any]:
    if device != "cuda" or find_spec("triton") is None:
        return measure_plainly
    from .fused import measure_fused  # noqa: PLC0415  an optional extra

    return measure_fused


def readable(tensor: Any) -> Any:
    """The elements as the kernels read them, without gaps, in any order; a copy on the device where it must be."""
    if tensor.dtype not in _READ:
        is_small_float = tensor.is_floating_point() and tensor.element_size() == 1
        tensor = tensor.to(torch.float32 if is_small_float else torch.float64)
    if tensor.is_contiguous():
        return tensor
    return tensor.as_strided((tensor.numel(),), (1,)) if fills_its_memory(tensor) else tensor.contiguous()


def fills_its_memory(tensor: Any) -> bool:
    """Whether the elements lie without gaps and without overlap, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
