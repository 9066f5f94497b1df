"""Who holds memory when it runs out: parameters, gradients, buffers, optimizer states, the process, the device."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ..storage.records import Json

__all__ = ["is_out_of_memory", "memory_held"]

_WORDS: Final = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|unable to allocate", re.IGNORECASE
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory of the host or of a device ran out."""
    return isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or bool(_WORDS.search(str(error)))


def memory_held(model: object, optimizers: Iterable[object]) -> dict[str, Json]:
    """Return bytes by holder; what cannot be read is left out."""
    found: dict[str, Json] = {}
    try:
        found |= _of_model(model, tuple(optimizers))
        found |= _of_process()
        found |= _of_device()
    except Exception:  # noqa: BLE001  memory is short, and the end of the run must be recorded
        pass
    return {name: value for name, value in found.items() if value}


def _of_model(model: Any, optimizers: tuple[Any, ...]) -> dict[str, Json]:
    if not hasattr(model, "buffers"):
        return {}
    parameters = [*model.parameters()]
    states = [
        slot
        for optimizer in optimizers
        for state in getattr(optimizer, "state", {}).values()
        for slot in (state.values() if isinstance(state, dict) else ())
    ]
    return {
        "parameters": _bytes(parameters),
        "gradients": _bytes(parameter.grad for parameter in parameters),
        "buffers": _bytes(model.buffers()),
        "optimizer": _bytes(states),
    }


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(tensor.nbytes for tensor in tensors if hasattr(tensor, "nbytes"))


def _of_process() -> dict[str, Json]:
    lines = Path("/proc/self/status").read_text().splitlines() + Path("/proc/meminfo").read_text().splitlines()
    known = {name: words.split()[0] for name, _, words in (line.partition(":") for line in lines) if words.split()}
    names = {"process": "VmRSS", "process_peak": "VmHWM", "host_free": "MemAvailable", "host": "MemTotal"}
    return {name: int(known[field]) * 1024 for name, field in names.items() if known.get(field, "").isdigit()}


def _of_device() -> dict[str, Json]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "device_allocated": torch.cuda.memory_allocated(),
        "device_peak": torch.cuda.max_memory_allocated(),
        "device_reserved": torch.cuda.memory_reserved(),
        "device_free": free,
        "device": total,
    }
