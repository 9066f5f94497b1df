"""The ten statistics of torch tensors where they lie, on whatever device that is, without waiting for it."""

from .measuring import measure_on_device
from .plain import measure_plainly
from .queue import DeviceQueue

__all__ = ["DeviceQueue", "measure_on_device", "measure_plainly"]
