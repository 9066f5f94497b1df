"""DLPack: arrays handed between libraries without a copy.

NumPy speaks DLPack for every element type but bfloat16, which it does not have; for that one the capsule is made and
read here, after the specification.

Reference:
    DLPack 1.0, https://dmlc.github.io/dlpack/latest/c_api.html; Python protocol of the array API standard 2023.12.
"""

import ctypes
from typing import Any, Protocol, TypeAlias

import numpy as np

from .dtype import as_dtype, bfloat16
from .errors import DtypeError
from .tensor import Array, Tensor, method, wrap

__all__ = ["from_dlpack"]

_HOST = (1, 0)  # kDLCPU, the first of them
_BFLOAT = 4  # kDLBfloat


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor, the form without a version."""


_Pointer: TypeAlias = "ctypes._Pointer[_Managed]"
_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)

# What was handed out lives until its new owner lets it go.
_given: dict[int, object] = {}


def _forget(managed: _Pointer) -> None:
    _given.pop(ctypes.addressof(managed.contents), None)


_let_go = _Deleter(_forget)


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _drop(capsule: int) -> None:
    """Free what a capsule that nobody took has held."""
    if _is_valid(capsule, b"dltensor"):
        _given.pop(_raw_pointer(capsule, b"dltensor"), None)


_unused = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def _capsule(array: Array) -> object:
    """Return a capsule of a bfloat16 array."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(stride // array.itemsize for stride in array.strides))
    device_type, device_id = _HOST
    tensor = _Tensor(
        data=array.ctypes.data,
        device_type=device_type,
        device_id=device_id,
        ndim=array.ndim,
        code=_BFLOAT,
        bits=16,
        lanes=1,
        shape=shape,
        strides=strides,
        byte_offset=0,
    )
    managed = _Managed(tensor, None, _let_go)
    address = ctypes.addressof(managed)
    _given[address] = (managed, array, shape, strides)
    return _new_capsule(address, b"dltensor", ctypes.cast(_unused, ctypes.c_void_p))


@method
def __dlpack__(  # noqa: N807 (the protocol's name)
    x: Tensor,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """Return a capsule of the values, shared; a tensor that requires a gradient is handed over without it only by
    `detach()`.

    Raises:
        BufferError: The tensor requires a gradient, or another device or a stream is asked for.
    """
    if x.requires_grad:
        raise BufferError("a tensor that requires a gradient cannot be handed over by DLPack; use x.detach()")
    if dl_device not in (None, _HOST) or stream is not None:
        raise BufferError(f"a tensor on the CPU can be handed over to device {_HOST} only, without a stream")
    array = x.asnumpy() if copy else x.numpy()
    if array.dtype == bfloat16:
        if not array.flags.writeable:
            raise BufferError("a read-only bfloat16 tensor cannot be handed over by DLPack; copy it first")
        return _capsule(array)
    options: dict[str, Any] = {} if max_version is None else {"max_version": max_version}
    return array.__dlpack__(**options)


@method
def __dlpack_device__(x: Tensor) -> tuple[int, int]:  # noqa: N807 (the protocol's name)
    """Return device type and number: that of the CPU."""
    del x
    return _HOST


class SupportsDlpack(Protocol):
    """An array that can hand its memory over by DLPack."""

    def __dlpack__(self, *, stream: None = None) -> Any:  # Python has no type of capsules
        """Return a capsule of the memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return device type and number."""


def from_dlpack(source: SupportsDlpack) -> Tensor:
    """Return a tensor that shares the memory of an object with `__dlpack__`: an array of NumPy, PyTorch, JAX, CuPy, ...

    Args:
        source: On the CPU. What it shares may be read-only (JAX's arrays are).

    Raises:
        BufferError: It is on another device, or will not share.
        DtypeError: The engine has no such element type.
    """
    device = tuple(int(part) for part in source.__dlpack_device__())
    if device[0] != _HOST[0]:
        raise BufferError(f"from_dlpack expects an array on the CPU, got device type {device[0]}; copy it there")
    if _is_bfloat16(source):
        return wrap(_read(source.__dlpack__(), source))
    array = np.from_dlpack(source)
    as_dtype(array.dtype)
    return wrap(array)


def _is_bfloat16(source: object) -> bool:
    return "bfloat16" in str(getattr(source, "dtype", ""))


def _read(capsule: object, source: object) -> Array:
    """Return the array of a bfloat16 capsule; its memory is let go with the array."""
    address = _pointer_of(capsule, b"dltensor")
    managed = ctypes.cast(address, ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    if (tensor.code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
        raise DtypeError(f"from_dlpack expects bfloat16, got type code {tensor.code} of {tensor.bits} bits")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    dense = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else dense
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    if any(stride < 0 for stride in strides):
        raise BufferError("from_dlpack of a bfloat16 array expects strides of 0 or more")
    owner = _Owner(managed, capsule, source)
    if not reach:
        return np.empty(shape, bfloat16)
    memory: Any = (ctypes.c_uint16 * reach).from_address((tensor.data or 0) + tensor.byte_offset)
    memory.owner = owner  # the array's base keeps it
    flat = np.frombuffer(memory, np.uint16)
    spread = np.lib.stride_tricks.as_strided(flat, shape, tuple(2 * stride for stride in strides))
    return spread.view(bfloat16)


class _Owner:
    """Calls the producer's deleter when the last array on its memory is gone."""

    def __init__(self, managed: _Pointer, capsule: object, source: object) -> None:
        _rename(capsule, b"used_dltensor")
        self._managed, self._source = managed, source

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)
