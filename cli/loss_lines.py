"""The loss of a run in one line of `mindscope show`, and in its document."""

from typing import TYPE_CHECKING

from .output import sparkline

if TYPE_CHECKING:
    from rich.console import Console

    from ..storage import Series


def print_loss(out: "Console", loss: "Series", words: str) -> None:
    """Print first, last and best value beside a line of the course; nothing without a value."""
    from ..insight.loss_levels import ends_of

    ends = ends_of(loss)
    if ends.count:
        best = f", best {ends.best:.4g} at step {ends.best_step}" if ends.best_step >= 0 else ""
        line = f"  {words}  {sparkline(loss.values.tolist())}  {ends.first:.4g} → {ends.last:.4g}{best}"
        out.print(line, markup=False)


def ends_in_json(loss: "Series") -> dict[str, object]:
    """Return last and best value for the document; None where there is none."""
    from ..insight.loss_levels import ends_of

    ends = ends_of(loss)
    best = (
        {"best": ends.best, "best_step": ends.best_step} if ends.best_step >= 0 else {"best": None, "best_step": None}
    )
    return {"last": ends.last if ends.count else None, **best}
