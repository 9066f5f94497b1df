"""The operation that made the first value that is not finite, where the monitor has traced it."""

from dataclasses import dataclass
from typing import Final

from ...storage import Event, Json
from ..view.moment import Moment

__all__ = ["TRACED", "Origin"]

#: What a record carries that a traced operation was told in.
TRACED: Final = "event/first_bad_operation"
#: What a traced operation is told with that has made nothing worse.
_GIVEN: Final = "its inputs were not finite already"
_SUSPECTS: Final = (
    "log or sqrt of a negative number, division by a sum that can be zero, exp of a large number, 0 x Inf; in float16 "
    "a value above 65504 is enough: compute it in float32"
)


@dataclass(slots=True)
class Origin:
    """The newest operation that was traced; forgotten once the weights are seen to be finite behind it.

    A trace rests while the weights are not finite, so what shows in those steps began with the operation before them.
    """

    event: Event | None = None
    is_over: bool = False

    def learn(self, now: Moment) -> None:
        """Takes what was traced in the step, and whether the weights are finite behind it."""
        if self.is_over:
            self.event, self.is_over = None, False
        self.event = next(iter(now.events("first_bad_operation")), self.event)
        weights = now.table("weight") if self.event else None
        self.is_over = weights is not None and weights.is_whole and not weights.holds_non_finite

    def earlier(self, now: Moment) -> int | None:
        """The step before this one with which it began; None where nothing was traced, or something in this step."""
        return self.event.step if self.event and self.event.step < now.step else None

    def to_text(self, now: Moment) -> str:
        """What the trace says, as the end of a sentence; empty without one."""
        if self.event is None:
            return ""
        step = self.earlier(now)
        return f"; {_said(self.event)}" if step is None else f"; of step {step} the trace says: {_said(self.event)}"

    def advice(self, now: Moment, otherwise: str) -> str:
        """What to do where it began before this step; `otherwise` where it did not."""
        step = self.earlier(now)
        if step is None:
            return otherwise
        return (
            f"mend what was traced at step {step}{_where(self.event)}; nothing is wrong with the place where this "
            f"shows; go on from a checkpoint of before, as the weights have been lost since"
        )

    def mend(self, place: str) -> str:
        """What to look for in the operation that was traced; in those at the place where none was."""
        if self.event is not None and self.event.data.get("source") == _GIVEN:
            return "look at what gave that operation its inputs: the data, or weights that were set between two steps"
        return f"look at the operation {place if self.event is None else 'that was traced'} for {_SUSPECTS}"


def _said(event: Event) -> str:
    data = event.data
    where = _where(event)
    code = f" ({data['code']})" if data.get("code") else ""
    if data.get("source") == "one of these":
        return f"the loss was made by {data['operation']}"
    if data.get("source"):
        return f"the first operation that shows it is {data['operation']}{where}{code}, its inputs were bad already"
    node = f" in the backward pass of {data['node']}," if data.get("node") else ""
    return f"the first bad operation is {data['operation']}{node}{where}{code}{_range(data.get('inputs'))}"


def _where(event: Event | None) -> str:
    return f" at {event.data['file']}:{event.data['line']}" if event and event.data.get("file") else ""


def _range(inputs: Json) -> str:
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if not isinstance(first, dict):
        return ""
    low, high = first.get("min"), first.get("max")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return ""
    return f", whose first input lies in [{low:.4g}, {high:.4g}]"
