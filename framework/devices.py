"""Devices: where the values of a tensor are, who computes with them, and `Tensor.to`, which moves them.

A tensor of another device than the host is a subclass that intercepts primitives (`Tensor.__fallback__`), so operations
are dispatched by the device of their operands. Names are "CPU" for the host's NumPy, "xla", "xla:cpu", "xla:gpu" for
JAX's arrays, and "GPU" for the first GPU that a library here can use.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module

from .errors import EngineError, NameTaken
from .primitive import Primitive, record_intercepted
from .specs import Spec
from .tensor import Array, Tensor, method, wrap

__all__ = ["DEVICES", "HOST", "DeviceError", "device_of", "register_device", "to"]

#: Where tensors are unless one says otherwise.
HOST = "CPU"

#: `place(array, platform)`: a tensor of the device with the array's values.
Place = Callable[[Array, str], Tensor]

DEVICES: dict[str, Place] = {}

# Our own, imported when first asked for.
_BUILT_IN = {"xla": (".xla_device", "place")}


class DeviceError(EngineError, ValueError):
    """A device that is not there, or tensors of two devices in one operation."""


def register_device(name: str) -> Callable[[Place], Place]:
    """Return a decorator: the function `(array, platform) -> tensor` places values on the device of that name.

    The tensor's class intercepts primitives, has a property `device` that starts with the name, and gives its values
    back by `numpy()`.

    Raises:
        NameTaken: A device of that name stands already.
    """

    def register(place: Place) -> Place:
        if name in DEVICES or name in _BUILT_IN or name == HOST:
            raise NameTaken(f"a device '{name}' is registered already; give the new one another name")
        DEVICES[name] = place
        return place

    return register


def _place_of(name: str) -> Place:
    if name not in DEVICES and name in _BUILT_IN:
        module, function = _BUILT_IN[name]
        try:
            DEVICES[name] = getattr(import_module(module, __package__), function)
        except ModuleNotFoundError as error:
            raise DeviceError(
                f"device '{name}' needs {error.name}, which is not installed; pip install mindscope[{name}]"
            ) from error
    if name not in DEVICES:
        known = sorted({HOST, *DEVICES, *_BUILT_IN})
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise DeviceError(f"no device '{name}'{hint}; known are {', '.join(known)} and GPU")
    return DEVICES[name]


def device_of(x: Tensor) -> str:
    """Return where the values of a tensor are."""
    return x.device


def _evaluate(x: Array, *, device: str) -> Array:
    del device
    return x


def _infer(x: Spec, *, device: str) -> Spec:
    del device
    return x


_transfer: Primitive = Primitive("transfer", _evaluate, _infer, (lambda g, _, x, *, device: to(g, x.device),))


@method
def to(x: Tensor, device: str) -> Tensor:
    """Return the tensor on another device, itself if it is there already; gradients come back to where it was.

    Args:
        x: Any tensor.
        device: "CPU", "GPU", "xla", "xla:cpu", "xla:gpu", or a registered name.

    Raises:
        DeviceError: There is no such device here.
    """
    wanted = "xla:gpu" if device.upper() == "GPU" else HOST if device.upper() == HOST else device
    if wanted == x.device or x.device.startswith(f"{wanted}:"):
        return x
    if x.__fallback__ is not None:
        moved: Tensor = _transfer(x, device=wanted)
        return moved
    return record_intercepted(_transfer, (x,), {"device": wanted}, placed(x._data, wanted))  # type: ignore[no-any-return]


def placed(array: Array, device: str) -> Tensor:
    """Return a tensor with the array's values on a device."""
    if device == HOST:
        return wrap(array)
    name, _, platform = device.partition(":")
    return _place_of(name)(array, platform)
