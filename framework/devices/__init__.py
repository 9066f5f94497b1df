"""Devices: where the values of a tensor are, and who computes with them.

A tensor of another device than the host is a subclass that intercepts primitives (`Tensor.__fallback__`), so operations
are dispatched by the device of their operands. Names are "CPU" for the host's NumPy, "xla", "xla:cpu", "xla:gpu" for
JAX's arrays, and "GPU" for the first GPU that a library here can use.
"""

from .device import DEVICES, HOST, DeviceError, device_of, register_device, to

__all__ = ["DEVICES", "HOST", "DeviceError", "device_of", "register_device", "to"]
