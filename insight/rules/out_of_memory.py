"""Memory of the host or of a device that ran out."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...storage import Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import as_number, number
from ..failure import is_out_of_memory, place, said
from ..recording import Recording
from ..rule import FORWARD, rule

_FIGURES = ("memory/device_bytes", "memory/host_bytes")
_GIGA, _MEGA = 2.0**30, 2.0**20
#: What holds memory, in the words of the explanation.
_HOLDERS = ("parameters", "gradients", "optimizer", "buffers", "device_allocated", "device", "process", "host")
#: Growth of a figure over the run that is told, as a share (our choice: less is noise of an allocator).
_TOLD = 0.1


@dataclass(slots=True)
class _MemoryState:
    """First and newest value of each figure, and of the batch."""

    first: dict[str, float] = field(default_factory=dict)
    newest: dict[str, float] = field(default_factory=dict)

    def learn(self, name: str, value: float | None) -> None:
        """Take a value of this record."""
        if value is not None:
            self.first.setdefault(name, value)
            self.newest[name] = value


def _ended(message: str, kind: str = "RuntimeError") -> Recording:
    data: dict[str, Json] = {"type": kind, "message": message, "file": "train.py", "line": 7, "code": "loss.backward()"}
    data["memory"] = {"parameters": 2**20, "optimizer": 2**21, "process": 2**34}
    return Recording(events=(Event("exception", 0, data=data),))


@rule(
    "out-of-memory",
    needs=("record",),
    triggers=("event/exception", *(f"scalar/{name}" for name in _FIGURES)),
    phase=FORWARD,
    memory=_MemoryState,
    is_fact=True,
    fires_on=(
        _ended("CUDA out of memory. Tried to allocate 2.00 GiB", "OutOfMemoryError"),
        _ended("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        _ended("Unable to allocate 7.28 TiB for an array with shape (1000000000000,)", "_ArrayMemoryError"),
        _ended("", "MemoryError"),
    ),
    silent_on=(_ended("mat1 and mat2 shapes cannot be multiplied (8x56 and 40x3)"), _ended("'x'", "KeyError")),
)
def check(context: StepContext, memory: _MemoryState) -> Iterator[Finding]:
    """Report that memory ran out: who held it, what had grown, and the line that asked for more.

    Parameters, gradients, buffers and optimizer states are counted when the run ends; what the process or the device
    holds beyond them is activations, batches and what the script keeps.
    """
    for name in _FIGURES:
        memory.learn(name, context.scalar(name))
    for event in context.events("exception"):
        if not is_out_of_memory(event):
            continue
        told = event.data.get("memory")
        held = {name: as_number(value) for name, value in told.items()} if isinstance(told, dict) else {}
        sizes = ", ".join(f"{name.replace('_', ' ')} {_size(held[name])}" for name in _HOLDERS if name in held)
        yield context.finding(
            event.site,
            "",
            {"step": event.step, "line": number(event, "line"), **{f"{name}_bytes": held[name] for name in held}},
            explanation=f"memory ran out: {said(event)}{place(event)}"
            + (f"; held: {sizes}" if sizes else "")
            + _growth(memory),
            advice="make the batch or its longest sample smaller, recompute activations (checkpointing), or accumulate "
            "gradients; where memory grew with the steps, look for tensors that are kept with their graph",
        )


def _growth(memory: _MemoryState) -> str:
    grown = [
        f"{name.removeprefix('memory/').removesuffix('_bytes')} memory grew from {_size(first)} to {_size(newest)}"
        for name, first in memory.first.items()
        if first > 0 and (newest := memory.newest[name]) / first - 1 >= _TOLD
    ]
    return f"; during the run {' and '.join(grown)}" if grown else ""


def _size(count: float) -> str:
    return f"{count / _GIGA:.3g} GB" if count >= _GIGA else f"{count / _MEGA:.3g} MB"
