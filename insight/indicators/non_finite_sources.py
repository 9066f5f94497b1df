"""Finds where a non-finite value came from: the batch, or a traced operation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..context.subject_table import Table

__all__ = ["TRACED", "MissingValues", "Origin"]


@dataclass(slots=True)
class MissingValues:
    """Watches for batches that contain NaN or infinity, and whether the model copes with them.

    Attributes:
        was_finite: The loss was, when it was seen last.
        are_borne: The loss was finite over such a batch, so the model is made for missing values.
    """

    was_finite: bool = True
    are_borne: bool = False

    def look(self, context: StepContext, is_finite: bool) -> Iterator[Finding]:
        """Yield a finding for the batch with which the loss stops being finite, if its input was not finite either.

        Minus infinity does not count: it is how attention masks are written. Where one network is given what another
        one makes, an input that is NaN throughout comes from that network, and from no data.

        Args:
            context: The step.
            is_finite: Whether its loss is.
        """
        table, was_finite = context.table("batch"), self.was_finite
        self.was_finite = is_finite
        if table is None or not table.holds_non_finite:
            return
        bad = ((table.column("nans") > 0) | (table.column("pos_infs") > 0)) & table.present
        if not bad.any() or self.are_borne:
            return
        self.are_borne = is_finite
        row = int(np.argmax(bad))
        is_made = len(context.model.structure.optimizers) > 1 and table.counts(row)["nans"] == table.counts(row)["size"]
        if was_finite and not is_finite and not is_made:
            yield _report(context, table, row)


def _report(context: StepContext, table: Table, row: int) -> Finding:
    counts, batch, name = table.counts(row), context.scalar("batch/id"), table.rows.sites[row]
    which = "" if batch is None else f" (batch {batch:.0f})"
    return context.finding(
        ROOT_SITE,
        "batch/nans" if counts["nans"] else "batch/pos_infs",
        {**counts, **({} if batch is None else {"batch_id": batch})},
        position=0,
        explanation=f"the input{f' {name}' if name else ''} of the batch of step {context.step}{which} already holds "
        f"{counts['nans']:.0f} NaN and {counts['pos_infs']:.0f} +Inf among its {counts['size']:.0f} values, and the "
        "loss is not finite either",
        advice="look at this batch, and at what loads and normalises it: missing values in the file, a division by a "
        "deviation of zero, log of zero; drop such samples or fill them in; no change to the model helps",
        confidence=1.0,
    )


#: What a record with a traced operation carries.
TRACED: Final = "event/first_bad_operation"
#: The source of a traced operation whose inputs were bad already.
_BAD_INPUTS: Final = "its inputs were not finite already"
_SUSPECTS: Final = (
    "log or sqrt of a negative number, division by a sum that can be zero, exp of a large number, 0 x Inf; in float16 "
    "a value above 65504 is enough: compute it in float32"
)


@dataclass(slots=True)
class Origin:
    """The newest traced operation; it is dropped once the weights after it are finite.

    The probe traces nothing while the weights are not finite; what shows in those steps began with this operation.
    """

    event: Event | None = None
    is_over: bool = False

    def learn(self, context: StepContext) -> None:
        """Take the step's traced operation, and whether the weights after it are finite."""
        if self.is_over:
            self.event, self.is_over = None, False
        self.event = next(iter(context.events("first_bad_operation")), self.event)
        weights = context.table("weight") if self.event else None
        self.is_over = weights is not None and weights.is_whole and not weights.holds_non_finite

    def earlier(self, context: StepContext) -> int | None:
        """Return the earlier step whose trace shows the origin; None if there is no earlier one."""
        return self.event.step if self.event and self.event.step < context.step else None

    def to_text(self, context: StepContext) -> str:
        """Return what the trace shows, as the end of a sentence; empty without one."""
        if self.event is None:
            return ""
        step = self.earlier(context)
        text = _trace_text(self.event)
        return f"; {text}" if step is None else f"; the trace of step {step} shows: {text}"

    def advice(self, context: StepContext, otherwise: str) -> str:
        """Return what to do if it began before this step; `otherwise` if it did not."""
        step = self.earlier(context)
        if step is None:
            return otherwise
        return (
            f"fix the operation traced at step {step}{_where(self.event)}, not the place where this shows; continue "
            f"from an earlier checkpoint, since the weights have been lost"
        )

    def suspects(self, where: str) -> str:
        """Return what to look for in the traced operation, or in the operation `where` if none was traced."""
        if self.event is not None and self.event.data.get("source") == _BAD_INPUTS:
            return "look at the source of that operation's inputs: the data, or weights that were set between two steps"
        return f"check {f'the operations {where}' if self.event is None else 'the traced operation'} for {_SUSPECTS}"


def _trace_text(event: Event) -> str:
    data = event.data
    where = _where(event)
    code = f" ({data['code']})" if data.get("code") else ""
    if data.get("source") == "one of these":
        return f"the loss was made by {data['operation']}"
    if data.get("source"):
        return f"the first operation that shows it is {data['operation']}{where}{code}; its inputs were bad already"
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
    return f"; its first input lies in [{low:.4g}, {high:.4g}]"
