"""Where the values of torch tensors lie, on the host, on a device or in shards, and how they are read in place."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import attrgetter, methodcaller
from typing import Any, Final

import ml_dtypes
import torch
from numpy.typing import NDArray
from torch._subclasses import FakeTensor

from ...kernels import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from ...kernels.device.measuring import fills_its_memory
from ...tensor_access import Access, Columns, Node, Place, Unsupported
from .torch_patches import is_recording, is_repeated

#: Classes whose tensors have memory of their own; others may only wrap one.
PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
#: Whether host tensors are treated as device tensors; for tests.
is_any_taken_for_remote = False


_is_capturing: Callable[[], bool] = torch.cuda.is_current_stream_capturing


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself, the local shard of a DTensor, or the result of a collective that is under way.

    Raises:
        Unsupported: It only stands for a tensor, as a fake one does, and has no memory to read.
    """
    if type(tensor) in PLAIN or tensor.numel() == 0 or _has_memory(tensor):
        return tensor
    part = local_part(tensor)
    if hasattr(part, "trigger_wait"):
        part = part.trigger_wait()
    if part.numel() and not _has_memory(part):
        raise Unsupported(f"a {type(tensor).__name__} that has no memory of its own cannot be read")
    return part


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the local shard of a DTensor; any other tensor itself."""
    return tensor._local_tensor if hasattr(tensor, "_local_tensor") else tensor


def _has_memory(tensor: torch.Tensor) -> bool:
    try:
        return not isinstance(tensor, FakeTensor) and bool(tensor.untyped_storage().data_ptr())
    except RuntimeError:  # raised by the storage of a wrapper
        return False


def is_remote(tensor: torch.Tensor) -> bool:
    """Return whether the tensor lies on a device that measures by itself."""
    return bool(tensor.is_cuda) or is_any_taken_for_remote


def may_travel(tensor: torch.Tensor) -> bool:
    """Return whether the whole tensor lies on such a device, and no CUDA graph is being captured."""
    is_there = is_remote(tensor) and not hasattr(tensor, "placements")
    return is_there and not (tensor.is_cuda and _is_capturing())


def is_any_remote(tensors: Sequence[torch.Tensor | None]) -> bool:
    """Return whether any of the tensors lies on such a device."""
    return is_any_taken_for_remote or any(map(getattr, tensors, repeat("is_cuda"), repeat(False)))


#: Elements up to which a sparse tensor is read as the dense one that it stands for: 256 MB in float32, for as long as
#: it is read (our choice).
_SPARSE_ELEMENTS: Final = 1 << 26


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the dense tensor that a sparse one stands for, such as the gradient of a sparse embedding.

    Raises:
        Unsupported: It is of another layout than coordinates, or too large.
    """
    if tensor.layout is not torch.sparse_coo or tensor.numel() > _SPARSE_ELEMENTS:
        size = f" of {tensor.numel():,} elements" if tensor.layout is torch.sparse_coo else ""
        layout = str(tensor.layout).removeprefix("torch.")
        raise Unsupported(f"{layout} tensors{size} are not supported, only dense ones are")
    return tensor.detach().to_dense()


def remote(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return this rank's part of a tensor on a CUDA device; None of any other tensor.

    Raises:
        Unsupported: It is sparse and large, quantized, or lies in the memory of a CUDA graph that is being
            recorded.
    """
    is_cuda = tensor.is_cuda
    if not (is_cuda or is_any_taken_for_remote):  # `is_remote`, without a call
        return None
    is_plain = type(tensor) in PLAIN and tensor.dtype in CODES and tensor.layout is torch.strided
    if is_plain and not tensor.is_neg() and not (is_cuda and _is_capturing()):
        return tensor
    if tensor.layout is not torch.strided:
        tensor = dense(tensor)
    if tensor.is_quantized:
        raise Unsupported(f"{str(tensor.dtype).removeprefix('torch.')} tensors are not supported")
    if is_cuda and _is_capturing():
        raise Unsupported(
            "tensors of a CUDA graph that is being captured cannot be read; its warm-up pass before is recorded"
        )
    return _real_parts(own_part(tensor)).resolve_neg()


def _real_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a complex tensor as one of real and imaginary parts, which share its memory; any other as it is.

    Its norm is that of the complex values; mean, extremes and the like are those of the parts.
    """
    return torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor


_PLAIN = frozenset(PLAIN)
_ABSENT: Place = (0, 0, 0)
_is_cpu, _is_cuda, _dtype = attrgetter("is_cpu"), attrgetter("is_cuda"), attrgetter("dtype")
_layout, _is_negative = attrgetter("layout"), torch.Tensor.is_neg
_is_contiguous, _size, _address = torch.Tensor.is_contiguous, torch.Tensor.numel, torch.Tensor.data_ptr

CODES = {
    torch.float32: FLOAT32,
    torch.float64: FLOAT64,
    torch.float16: FLOAT16,
    torch.bfloat16: BFLOAT16,
}


def place_of(tensor: torch.Tensor) -> tuple[Place, torch.Tensor]:
    """Return (address, size, code) of the tensor's values, and the tensor that keeps them there.

    Values stay where they are if they fill their memory without gaps, in whatever order, and not with their
    negatives; otherwise, and on other devices, a copy is made. Dtypes that the kernels do not read become float32
    (8-bit floats) or float64; of complex values the real and imaginary parts are read. Of a tensor that several
    ranks share the part of this rank is meant.

    Raises:
        Unsupported: The tensor is sparse and large, quantized, or only stands for one, as under `torch.func`.
    """
    code = CODES.get(tensor.dtype)
    if tensor.layout is not torch.strided:
        tensor = dense(tensor)
    try:
        if (
            code is not None
            and type(tensor) in PLAIN
            and tensor.is_cpu
            and tensor.is_contiguous()
            and not tensor.is_neg()
        ):
            return (tensor.data_ptr() or 1, tensor.numel(), code), tensor
        return _prepared(own_part(tensor))
    except (RuntimeError, NotImplementedError) as error:
        raise Unsupported(f"a tensor that has no memory of its own cannot be read: {error}") from None


def plain_place(tensor: torch.Tensor) -> Place | None:
    """Return (address, size, code) of a floating-point tensor on the host without gaps; None of any other."""
    code = CODES.get(tensor.dtype)
    if code is None or type(tensor) not in PLAIN or not tensor.is_cpu or is_any_taken_for_remote:
        return None
    try:
        return (
            (tensor.data_ptr() or 1, tensor.numel(), code) if tensor.is_contiguous() and not tensor.is_neg() else None
        )
    except (RuntimeError, NotImplementedError):
        return None


def columns_of(tensors: Sequence[torch.Tensor | None]) -> Columns | None:
    """Return addresses, sizes and codes of all tensors in place; None where `place_of` has to look at one.

    Without a line of Python for each tensor, since this is asked of all parameters several times a step.
    """
    if is_any_taken_for_remote:
        return None
    if not _PLAIN.issuperset(map(type, tensors)):
        return _columns_with_gaps(tensors) if type(None) in map(type, tensors) else None
    try:
        if not (all(map(_is_cpu, tensors)) and all(map(_is_contiguous, tensors))):
            return None
        addresses, codes = list(map(_address, tensors)), list(map(CODES.__getitem__, map(_dtype, tensors)))
    except (KeyError, RuntimeError, NotImplementedError):
        return None
    if not all(addresses):  # tensors without elements have address 0
        addresses = [address or 1 for address in addresses]
    return addresses, list(map(_size, tensors)), codes


def _columns_with_gaps(tensors: Sequence[torch.Tensor | None]) -> Columns | None:
    """Return the same columns where some tensors are None: their columns are 0."""
    found = columns_of([tensor for tensor in tensors if tensor is not None])
    if found is None:
        return None
    rows = zip(*found, strict=True)
    places = [_ABSENT if tensor is None else next(rows) for tensor in tensors]
    return [at for at, _, _ in places], [size for _, size, _ in places], [code for _, _, code in places]


def columns_away(tensors: Sequence[torch.Tensor | None]) -> tuple[list[int], list[int]] | None:
    """Return sizes and codes of tensors that all lie on a device; None where `remote` has to look at one.

    Without a line of Python for each tensor, as `columns_of`.
    """
    if not (_PLAIN.issuperset(map(type, tensors)) and (is_any_taken_for_remote or all(map(_is_cuda, tensors)))):
        return None
    try:
        codes = list(map(CODES.__getitem__, map(_dtype, tensors)))
    except KeyError:
        return None
    is_plain = {torch.strided}.issuperset(map(_layout, tensors)) and not any(map(_is_negative, tensors))
    return (list(map(_size, tensors)), codes) if is_plain else None


def code_on_host(tensor: torch.Tensor) -> int:
    """Return the code of the dtype that the tensor's values have on the host."""
    code = CODES.get(tensor.dtype)
    if code is not None:
        return code
    if tensor.is_complex():
        return CODES[tensor.dtype.to_real()]
    return FLOAT32 if tensor.is_floating_point() and tensor.element_size() == 1 else FLOAT64


def _prepared(tensor: torch.Tensor) -> tuple[Place, torch.Tensor]:
    if tensor.is_quantized:
        raise Unsupported(f"{str(tensor.dtype).removeprefix('torch.')} tensors are not supported")
    readable = _real_parts(tensor).detach().resolve_neg()
    if readable.dtype not in CODES:
        readable = readable.to(
            torch.float32 if readable.is_floating_point() and readable.element_size() == 1 else torch.float64
        )
    if not readable.is_cpu:
        readable = readable.cpu()
    if not readable.is_contiguous() and not fills_its_memory(readable):
        readable = readable.contiguous()
    return (readable.data_ptr() or 1, readable.numel(), CODES[readable.dtype]), readable


def _nodes_before(node: Node) -> Iterable[Node]:
    return [before for before, _ in node.next_functions if before is not None]


def _is_floating(tensor: torch.Tensor) -> bool:
    """Return whether the elements are real or complex floats."""
    return tensor.dtype in CODES or bool(tensor.is_floating_point() or tensor.is_complex())


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """Return the values in their own shape and order, sharing memory where they can.

    Raises:
        Unsupported: The tensor is sparse, quantized, of a dtype that NumPy does not know, or only stands for one.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unsupported(f"only dense tensors can be stored whole, got {tensor.layout}")
    try:
        readable = own_part(tensor).detach().resolve_neg().cpu().contiguous()
        if readable.dtype is torch.bfloat16:
            array: NDArray[Any] = readable.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
            return array
        return readable.numpy()  # type: ignore[no-any-return]
    except (TypeError, RuntimeError) as error:
        raise Unsupported(f"a tensor that has no memory of its own cannot be read: {error}") from None


ACCESS = Access(
    kind=torch.Tensor,
    place=place_of,
    is_floating=_is_floating,
    version=attrgetter("_version"),
    node=attrgetter("grad_fn"),
    before=_nodes_before,
    is_recording=is_recording,
    array=array_of,
    is_repeated=is_repeated,
    remote=remote,
    copied=methodcaller("clone"),
    plain=plain_place,
)


def only_scalar(roots: Any) -> Any:
    """Return the only root of a backward pass if it has one element; else None."""
    root = roots if isinstance(roots, torch.Tensor) else roots[0] if len(roots) == 1 else None
    return None if root is None or root.numel() != 1 else root


def only_plain(roots: Any) -> Any:
    """Return the value if it is a single one that can be read: no stand-in of a transformation of functions."""
    root = only_scalar(roots)
    is_readable = type(root) is torch.Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(root)
    return root if is_readable else None
