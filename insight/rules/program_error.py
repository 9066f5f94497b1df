"""An exception of the program that ended the run."""

from collections.abc import Iterator

from ...storage import Event, Finding
from ..context.step_context import StepContext
from ..event_fields import number
from ..failure import (
    LOST_CONNECTION,
    detail,
    is_misfit,
    is_of_a_person,
    is_of_communication,
    is_out_of_memory,
    place,
    said,
)
from ..recording import Recording
from ..rule import FORWARD, rule


def _ended(message: str, kind: str, **data: str) -> Recording:
    return Recording(events=(Event("exception", 0, data={"type": kind, "message": message, **data}),))


@rule(
    "program-error",
    needs=("record",),
    triggers=("event/exception",),
    phase=FORWARD,
    is_fact=True,
    fires_on=(
        _ended("'loss'", "KeyError"),
        _ended("element 0 of tensors does not require grad and does not have a grad_fn", "RuntimeError"),
        _ended("no such file", "FileNotFoundError", phase="data"),
        _ended("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:48357", "RuntimeError"),
    ),
    silent_on=(
        _ended("", "KeyboardInterrupt"),
        _ended("2", "SystemExit"),
        _ended("loss diverged", "TrainingStopped"),
        _ended("Target 3 is out of bounds.", "IndexError"),
        _ended("std::bad_alloc", "MemoryError"),
        _ended("optimizer got an empty parameter list", "ValueError", unlisted="Net.layers is a list"),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report an exception that ended the run, where no other rule names its cause.

    The finding names the part of the step, the module that ran with its input, the user's line and the tensors in it.
    An interrupt, `sys.exit` and a stop by a reaction are no errors. Where the communication with other ranks failed,
    the error only says that one of them did not answer; a hang or another rank's error, where one was found, explains
    it.
    """
    del memory
    for event in context.events("exception"):
        if is_of_a_person(event) or is_out_of_memory(event) or is_misfit(event) or event.data.get("unlisted"):
            continue
        phase, more = str(event.data.get("phase", "")), detail(event)
        during = f"during {'the loss' if phase == 'loss' else phase}, " if phase else ""
        if is_of_communication(event):
            yield context.finding(
                event.site,
                "",
                {"step": event.step, "line": number(event, "line"), LOST_CONNECTION: 1},
                explanation=f"{during}another rank left this one alone: {said(event)}{place(event)}",
                advice="look at the other ranks first, in this diagnosis, by `mindscope hang` and in their logs: one "
                "has ended, has failed, or has called other collectives; nothing says that the named line is wrong",
            )
            continue
        yield context.finding(
            event.site,
            "",
            {"step": event.step, "line": number(event, "line")},
            explanation=f"{during}an exception ended the program: {said(event)}{place(event)}"
            + (f"; {more}" if more else ""),
            advice="mend the named line; the traceback that the script printed shows how it came there",
        )
