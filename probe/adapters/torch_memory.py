"""Where a torch tensor lies, as the kernels take it."""

from typing import Any

import torch

from ..kernels import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

# Any: torch is optional, so that its types cannot be named for the checker.
Tensor = Any

CODES: dict[Any, int] = {
    torch.float32: FLOAT32,
    torch.float64: FLOAT64,
    torch.float16: FLOAT16,
    torch.bfloat16: BFLOAT16,
}


class Unsupported(TypeError):
    """A tensor whose values do not lie in memory as plain numbers, such as a sparse one."""


def place_of(tensor: Tensor) -> tuple[tuple[int, int, int], Tensor]:
    """(address, size, code) of the tensor's values, and the tensor that keeps them there.

    Values stay where they are if they fill their memory without gaps, in whatever order; otherwise, and on other
    devices, a copy is made. Dtypes that the kernels do not read become float32 (8-bit floats) or float64.

    Raises:
        Unsupported: The tensor is sparse, quantized or complex.
    """
    if tensor.layout is not torch.strided or tensor.is_complex() or tensor.is_quantized:
        kind = str(tensor.layout).removeprefix("torch.") if tensor.layout is not torch.strided else str(tensor.dtype)
        raise Unsupported(f"{kind} tensors are not supported; only dense real ones are recorded")
    held = tensor.detach()
    if held.dtype not in CODES:
        held = held.to(torch.float32 if held.is_floating_point() and held.element_size() == 1 else torch.float64)
    if not held.is_cpu:
        held = held.cpu()
    if not held.is_contiguous() and not _fills_its_memory(held):
        held = held.contiguous()
    return (held.data_ptr() or 1, held.numel(), CODES[held.dtype]), held


def _fills_its_memory(tensor: Tensor) -> bool:
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
