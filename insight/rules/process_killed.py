"""A process that a signal ended."""

from collections.abc import Iterator
from dataclasses import dataclass

from ...storage import Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..failure import place
from ..recording import Recording
from ..rule import FORWARD, rule

#: Signals by which people and schedulers end what they want ended.
_ASKED = frozenset({"SIGTERM", "SIGHUP", "SIGINT"})
#: Share of the machine's memory from which on the kernel is the likeliest to have killed the process (our choice).
_FULL = 0.85
_GIGA = 2.0**30


@dataclass(slots=True)
class _Held:
    """Bytes that the process held when they were looked at last."""

    host: float = 0.0


def _ended(signal: str, **more: Json) -> Recording:
    return Recording(
        {"scalar/memory/host_bytes": 30 * _GIGA},
        events=(Event("process_killed", 0, data={"signal": signal, "file": "train.py", "line": 7, **more}),),
        steps=1,
    )


@rule(
    "process-killed",
    needs=("record",),
    triggers=("event/process_killed", "scalar/memory/host_bytes"),
    phase=FORWARD,
    memory=_Held,
    is_fact=True,
    is_optional=True,
    fires_on=(_ended("Segmentation fault"), _ended("SIGTERM"), _ended(""), _ended("", memory_bytes=int(32 * _GIGA))),
    silent_on=(Recording(events=(Event("exception", 0, data={"type": "KeyError", "message": "'x'"}),)),),
)
def check(context: StepContext, memory: _Held) -> Iterator[Finding]:
    """Report the signal that ended the process, and the line that ran.

    SIGTERM comes from outside, for example from a scheduler whose time is over: the finding is a notice. A crash such
    as a segmentation fault is an error of a library or of an extension. A process that could leave no note was killed
    by SIGKILL, or the machine went down; if it held most of the machine's memory, the kernel was likely to.
    """
    memory.host = context.scalar("memory/host_bytes") or memory.host
    for event in context.events("process_killed"):
        signal, whole = str(event.data.get("signal", "")), number(event, "memory_bytes")
        is_full = not signal and memory.host >= _FULL * whole
        is_asked = signal.partition(" in ")[0] in _ASKED  # `SIGTERM in backward`
        yield context.finding(
            "",
            "memory/host_bytes" if is_full else "",
            {"step": event.step, "line": number(event, "line"), "host_bytes": memory.host, "memory_bytes": whole},
            severity="warning" if is_full else "info" if is_asked or not signal else "error",
            explanation=f"the process was ended by {signal}{place(event)}"
            if signal
            else _without_a_word(memory, whole),
            advice=_advice(signal, is_asked=is_asked, is_full=is_full),
            confidence=0.8 if is_full else 1.0,
        )


def _without_a_word(memory: _Held, whole: float) -> str:
    held = f"; it held {memory.host / _GIGA:.3g} GB" if memory.host else ""
    of = f" of {whole / _GIGA:.3g} GB" if held and whole == whole else ""
    return f"the process was gone at once: by SIGKILL, or because the machine went down{held}{of}"


def _advice(signal: str, *, is_asked: bool, is_full: bool) -> str:
    if is_full:
        return (
            "the kernel kills the process that holds most when memory runs out (dmesg names it): look at what grew, "
            "load less at a time, or use fewer workers"
        )
    if is_asked:
        return (
            "ask the scheduler or whoever sent it: a time limit, a preemption, a lost rank; save checkpoints so that "
            "the run can go on"
        )
    if not signal:
        return "ask whoever may have killed it, the scheduler's log, and dmesg for the kernel's out-of-memory killer"
    return (
        "look at the library whose call the named line makes, and at its version; python -X faulthandler shows the "
        "whole stack"
    )
