"""The devices there are: `cpu`, always, and `gpu`, where the XLA backend sees one; names of MindSpore's module."""

import os
from importlib import import_module
from importlib.util import find_spec

__all__ = ["cpu", "gpu"]


class _Cpu:
    """The processor that the engine runs on."""

    def is_available(self) -> bool:
        """Return whether it can be used: always."""
        return True

    def device_count(self) -> int:
        """Return how many there are: the cores that this process may use count as one."""
        return 1

    def cores(self) -> int:
        """Return cores that this process may use."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"cpu({self.cores()} cores)"


class _Gpu:
    """Graphics processors, which are reached through the XLA backend (extra `xla`)."""

    def is_available(self) -> bool:
        """Return whether there is one that the XLA backend sees."""
        return self.device_count() > 0

    def device_count(self) -> int:
        """Return how many the XLA backend sees; 0 without JAX."""
        if find_spec("jax") is None:
            return 0
        try:
            return len(import_module("jax").devices("gpu"))
        except RuntimeError:  # JAX's word for a platform it does not have
            return 0

    def why_not(self) -> str:
        """Return what is missing, in words; empty when nothing is."""
        if find_spec("jax") is None:
            return "JAX is not installed; pip install 'mindscope[xla]'"
        return "" if self.is_available() else "JAX sees no GPU; install its CUDA build, or check the driver"

    def __repr__(self) -> str:
        return f"gpu({self.device_count()} devices)"


cpu = _Cpu()
gpu = _Gpu()
