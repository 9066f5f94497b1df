"""An input that does not fit the module or the operation: its shape, element type, device or range."""

from collections.abc import Iterator

from ...storage import Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..failure import detail, is_misfit, is_of_a_person, is_out_of_memory, place, said
from ..recording import Recording
from ..rule import FORWARD, rule

_LINE: dict[str, Json] = {"file": "/home/me/train.py", "line": 11, "code": "return self.fc(h)"}


def _ended(message: str, kind: str = "RuntimeError") -> Recording:
    return Recording(events=(Event("exception", 0, "fc", data={"type": kind, "message": message, **_LINE}),))


@rule(
    "input-mismatch",
    needs=("record",),
    triggers=("event/exception",),
    phase=FORWARD,
    is_fact=True,
    fires_on=(
        _ended("mat1 and mat2 shapes cannot be multiplied (8x56 and 40x3)"),
        _ended("mat1 and mat2 must have the same dtype, but got Float and Half"),
        _ended("index out of range in self", "IndexError"),
        _ended("Target 3 is out of bounds.", "IndexError"),
        _ended("Given groups=1, weight of size [8, 3, 3, 3], expected input[4, 1, 28, 28] to have 3 channels"),
        _ended("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
        _ended("The size of tensor a (5) must match the size of tensor b (6) at non-singleton dimension 1"),
        _ended("Expected input batch_size (32) to match target batch_size (16).", "ValueError"),
        _ended("\"cross_entropy_loss\" not implemented for 'Int'"),
    ),
    silent_on=(
        _ended("CUDA out of memory. Tried to allocate 2.00 GiB"),
        _ended("element 0 of tensors does not require grad and does not have a grad_fn"),
        _ended("'loss'", "KeyError"),
        _ended("", "KeyboardInterrupt"),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report that the run ended because an operand did not fit.

    The error's words tell shapes, element types, devices and indices that do not fit. The finding names the module that
    ran, its input, what its settings and parameters expect, the user's line and the tensors in it.
    """
    del memory
    for event in context.events("exception"):
        if is_of_a_person(event) or is_out_of_memory(event) or not is_misfit(event):
            continue
        more = detail(event)
        yield context.finding(
            event.site,
            "",
            {"step": event.step, "line": number(event, "line")},
            explanation="an operand does not fit: " + "; ".join(filter(None, (more, f"{said(event)}{place(event)}"))),
            advice="make the input fit the module, or build the module for this input; print shape and dtype before "
            "the named line, or run it once with two samples",
        )
