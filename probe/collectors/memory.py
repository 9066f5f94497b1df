"""Memory of the process, and of the device where there is one."""

import os
import sys

from .collector import Step, collector

#: Reading the kernel's figure takes about ten microseconds; memory moves slowly. Our choice.
_EVERY = 10


@collector("memory", at="after_step", pace=_EVERY)
class Memory:
    """Bytes resident in host memory, and allocated on the CUDA device that torch uses; at every tenth due step.

    Scalars `memory/host_bytes`, `memory/device_bytes` and `memory/device_peak_bytes`. Nothing where the system does not
    tell.
    """

    def __init__(self) -> None:
        self._count = 0
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0

    def __call__(self, step: Step) -> dict[str, float]:
        """The scalars, or none in the steps between."""
        self._count += 1
        if (self._count - 1) % _EVERY:
            return {}
        return {**self._host(), **_device()}

    def _host(self) -> dict[str, float]:
        try:
            with open("/proc/self/statm", "rb") as file:
                return {"memory/host_bytes": float(int(file.read().split()[1]) * self._page)}
        except (OSError, ValueError, IndexError):
            return {}


def _device() -> dict[str, float]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {
        "memory/device_bytes": float(torch.cuda.memory_allocated()),
        "memory/device_peak_bytes": float(torch.cuda.max_memory_allocated()),
    }
