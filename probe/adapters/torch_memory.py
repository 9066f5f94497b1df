"""Where a torch tensor lies, and the rest of what the hooks need to know of torch's tensors."""

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import torch
from numpy.typing import NDArray

from ..kernels import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from .tensors import Access, Node, Place, Tensor, Unsupported
from .torch_recompute import is_recording, is_repeated

CODES = {
    torch.float32: FLOAT32,
    torch.float64: FLOAT64,
    torch.float16: FLOAT16,
    torch.bfloat16: BFLOAT16,
}


def place_of(tensor: Tensor) -> tuple[Place, Tensor]:
    """(address, size, code) of the tensor's values, and the tensor that keeps them there.

    Values stay where they are if they fill their memory without gaps, in whatever order; otherwise, and on other
    devices, a copy is made. Dtypes that the kernels do not read become float32 (8-bit floats) or float64.

    Raises:
        Unsupported: The tensor is sparse, quantized or complex, or only stands for one, as under `torch.func`.
    """
    code = CODES.get(tensor.dtype)
    if tensor.layout is not torch.strided:
        raise Unsupported(f"{str(tensor.layout).removeprefix('torch.')} tensors are not supported, only dense ones are")
    try:
        if code is not None and tensor.is_cpu and tensor.is_contiguous():
            return (tensor.data_ptr() or 1, tensor.numel(), code), tensor
        return _prepared(tensor)
    except (RuntimeError, NotImplementedError) as error:
        raise Unsupported(f"a tensor that has no memory of its own cannot be read: {error}") from None


def _prepared(tensor: Tensor) -> tuple[Place, Tensor]:
    if tensor.is_complex() or tensor.is_quantized:
        raise Unsupported(f"{str(tensor.dtype).removeprefix('torch.')} tensors are not supported, only real ones are")
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


def _nodes_before(node: Node) -> Iterable[Node]:
    return [before for before, _ in node.next_functions if before is not None]


def _is_floating(tensor: Tensor) -> bool:
    return tensor.dtype in CODES or bool(tensor.is_floating_point())


def _version(tensor: Tensor) -> int:
    return int(tensor._version)


def _node(tensor: Tensor) -> Node | None:
    return tensor.grad_fn


def array_of(tensor: Tensor) -> NDArray[Any]:
    """The values in their own shape and order, sharing memory where they can.

    Raises:
        Unsupported: The tensor is sparse, quantized, or of a dtype that NumPy does not know.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unsupported(f"only dense tensors can be stored whole, got {tensor.layout}")
    held = tensor.detach().cpu().contiguous()
    if held.dtype is torch.bfloat16:
        array: NDArray[Any] = held.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return array
    try:
        return held.numpy()  # type: ignore[no-any-return]
    except TypeError as error:
        raise Unsupported(str(error)) from None


ACCESS = Access(
    torch.Tensor, place_of, _is_floating, _version, _node, _nodes_before, is_recording, array_of, is_repeated
)
