"""NaN or infinity that comes with the data: known without any history, and no fault of the model."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..view.moment import Moment
from ..view.table import Table

__all__ = ["MissingValues"]


@dataclass(slots=True)
class MissingValues:
    """Whether the batches of a run bring NaN or infinity with them, and whether the model bears that.

    Attributes:
        was_finite: The loss was, when it was seen last.
        are_borne: The loss was finite over such a batch, so the model is made for missing values.
    """

    was_finite: bool = True
    are_borne: bool = False

    def look(self, now: Moment, is_finite: bool) -> Iterator[Finding]:
        """The batch with which the loss stops being finite, if its input was not finite either.

        Minus infinity does not count: it is how attention masks are written.

        Args:
            now: The step.
            is_finite: Whether its loss is.
        """
        table, was_finite = now.table("batch"), self.was_finite
        self.was_finite = is_finite
        if table is None or not table.holds_non_finite:
            return
        bad = ((table.column("nans") > 0) | (table.column("pos_infs") > 0)) & table.present
        if not bad.any() or self.are_borne:
            return
        self.are_borne = is_finite
        if was_finite and not is_finite:
            yield _report(now, table, int(np.argmax(bad)))


def _report(now: Moment, table: Table, row: int) -> Finding:
    counts, batch, name = table.counts(row), now.scalar("batch/id"), table.rows.sites[row]
    which = "" if batch is None else f" (batch {batch:.0f})"
    return now.finding(
        ROOT_SITE,
        "batch/nans" if counts["nans"] else "batch/pos_infs",
        {**counts, **({} if batch is None else {"batch_id": batch})},
        place=0,
        explanation=f"the batch of step {now.step}{which} holds {counts['nans']:.0f} NaN and {counts['pos_infs']:.0f} "
        f"+Inf among the {counts['size']:.0f} values of its input{f' {name}' if name else ''}, before any module has "
        "touched it, and the loss is not finite either",
        advice="look at this batch, and at what loads and normalises it: missing values in the file, a division by a "
        "deviation of zero, log of zero; leave such samples out or fill them in; no change to the model mends this",
        confidence=1.0,
    )
