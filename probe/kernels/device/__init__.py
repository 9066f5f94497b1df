"""The ten statistics of torch tensors where they lie, on whatever device that is, without waiting for it."""

from .device_queue import DeviceQueue
from .measuring import measure_on_device, measure_plainly

__all__ = ["DeviceQueue", "measure_on_device", "measure_plainly"]
