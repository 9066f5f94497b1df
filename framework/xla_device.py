"""The device `xla`: tensors whose values are JAX arrays; every primitive is computed by its translation to XLA."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import jax
import numpy as np
import numpy.typing as npt

from .context import PULLING
from .devices import HOST, DeviceError, placed
from .dtype import Number
from .errors import DataDependentShape
from .primitive import PRIMITIVES, Primitive
from .random import Key
from .tensor import Array, Tensor, TensorLike, as_array
from .xla import apply
from .xla.jax_arrays import to_jax
from .xla.translation_table import KeyWords, Operand, Result, words_of

__all__ = ["XlaTensor", "place"]

#: What a primitive is applied to.
_Input: TypeAlias = TensorLike | Key


def place(array: Array, platform: str) -> "XlaTensor":
    """Place the array's values on the first device of a platform ("cpu", "gpu"; "" for JAX's default)."""
    try:
        device = jax.devices(platform or None)[0]
    except RuntimeError as error:
        raise DeviceError(
            f"JAX has no device of platform '{platform}' here; it has {', '.join(sorted(_platforms()))}"
        ) from error
    with jax.enable_x64(True):
        return XlaTensor(jax.device_put(np.array(array), device))


def _platforms() -> set[str]:
    return {device.platform for device in jax.devices()}


class XlaTensor(Tensor):
    """A tensor on a device of JAX.

    Attributes:
        array: Its values.
    """

    __slots__ = ("array",)
    __fallback_priority__ = 5

    def __init__(self, array: jax.Array) -> None:
        super().__init__(np.broadcast_to(np.zeros((), array.dtype), array.shape))
        self.array = array

    @property
    def device(self) -> str:
        """`xla:platform:number`."""
        (device,) = self.array.devices()
        return f"xla:{device.platform}:{device.id}"

    @classmethod
    def __fallback__(
        cls, primitive: Primitive, inputs: tuple[_Input, ...], attributes: dict[str, object]
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the result on the device of the operands."""
        if primitive.name == "transfer":
            source = inputs[0]
            assert isinstance(source, Tensor)
            return placed(source.numpy(), str(attributes["device"]))
        values = _on_one_device(primitive, inputs)
        with jax.enable_x64(True):
            try:
                result = _compute(primitive, values, attributes)
            except DataDependentShape:
                result = _by_host(primitive, inputs, attributes)
        return tuple(cls(y) for y in result) if isinstance(result, tuple) else cls(result)

    def numpy(self) -> Array:
        """Return the values, on the host; read-only."""
        return np.asarray(self.array)

    def asnumpy(self) -> Array:
        """Return a copy of the values, on the host."""
        return np.array(self.array)

    def item(self) -> Number:
        """Return the single value as a Python number."""
        return Tensor(self.numpy()).item()

    def tolist(self) -> object:
        """Return the values as nested lists of Python numbers."""
        return self.numpy().tolist()

    def copy_(self, data: object) -> Tensor:
        """Return this tensor, its values exchanged."""
        new = as_array(data)
        if new.shape != self.shape:
            return super().copy_(data)  # which says what is wrong
        (device,) = self.array.devices()
        with jax.enable_x64(True):
            self.array = jax.device_put(new.astype(self.dtype), device)
        self.mark_changed()
        return self

    def __setitem__(self, index: object, value: object) -> None:
        raise DeviceError(
            "a tensor on a device of XLA cannot be assigned to in part; use ops.where or scatter operations"
        )

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return Tensor(self.numpy()).__array__(dtype, copy)

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.array.__dlpack_device__()
        return int(kind), int(number)

    def __repr__(self) -> str:
        values = np.array2string(self.numpy(), separator=", ", prefix="XlaTensor(")
        return f"XlaTensor({values}, dtype={self.dtype}, device={self.device!r})"


def _on_one_device(primitive: Primitive, inputs: Sequence[_Input]) -> tuple[Operand, ...]:
    """Return the operands as JAX arrays.

    Numbers of the host and integers (indices, masks, places) come along by themselves; on the way back so do the
    constants that rules make.

    Raises:
        DeviceError: They are on two devices.
    """
    devices = {x.device: None for x in inputs if isinstance(x, XlaTensor)}
    values: list[Operand] = []
    for x in inputs:
        if isinstance(x, XlaTensor):
            values.append(x.array)
        elif isinstance(x, Tensor):
            if x.ndim and x.dtype.kind not in "iub" and not PULLING.get():
                devices[HOST] = None
            values.append(to_jax(np.array(x.numpy())))
        else:
            values.append(words_of(x) if isinstance(x, Key) else x)
    if len(devices) > 1:
        shapes = ", ".join(f"{x.shape} on {x.device}" for x in inputs if isinstance(x, Tensor))
        raise DeviceError(f"'{primitive.name}' got tensors of two devices: {shapes}; move one with .to(device)")
    return tuple(values)


def _compute(primitive: Primitive, values: tuple[Operand, ...], attributes: Mapping[str, object]) -> Result:
    numbers = tuple(None if hasattr(x, "shape") or isinstance(x, KeyWords) else x for x in values)
    arrays = [x for x, number in zip(values, numbers, strict=True) if number is None]
    try:
        function = _compiled(primitive.name, numbers, tuple(sorted(attributes.items())))
    except TypeError:  # an attribute that cannot be hashed
        return apply(primitive, values, attributes)
    return function(*arrays)


@lru_cache(4096)
def _compiled(
    name: str, numbers: tuple[Operand | None, ...], attributes: tuple[tuple[str, object], ...]
) -> Callable[..., Result]:
    """Return the translation of a primitive, compiled; numbers and attributes are part of it."""

    def run(*arrays: "jax.Array | KeyWords") -> Result:
        rest = iter(arrays)
        values = tuple(next(rest) if number is None else number for number in numbers)
        return apply(PRIMITIVES[name], values, dict(attributes))

    compiled: Callable[..., Result] = jax.jit(run)
    return compiled


def _by_host(
    primitive: Primitive, inputs: Sequence[_Input], attributes: Mapping[str, object]
) -> "Operand | tuple[Operand, ...]":
    result = primitive.evaluate(*(x.numpy() if isinstance(x, Tensor) else x for x in inputs), **attributes)
    return tuple(to_jax(y) for y in result) if isinstance(result, tuple) else to_jax(np.asarray(result))
