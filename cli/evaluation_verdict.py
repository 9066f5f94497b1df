"""What `mindscope show` and `runs` say of an evaluation: outcomes, the worst case, and whether to trust it."""

from math import isnan
from typing import TYPE_CHECKING

from .output import add_row, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text

    from ..storage import Outcome
    from ..storage.evaluation_verdict import EvaluationVerdict

_STYLES = {None: "yellow", True: "green", False: "red"}


def evaluation_document(outcomes: "Sequence[Outcome]") -> dict[str, object]:
    """Return worst case and verdict for programs; empty without attacks."""
    from ..storage.evaluation_verdict import evaluation_verdict

    found = evaluation_verdict(outcomes)
    if found is None:
        return {}
    worst = [{"norm": one.norm, "epsilon": one.epsilon, "accuracy": one.accuracy} for one in found.worst_case]
    return {
        "worst_case": worst,
        "verdict": found.words,
        "is_trusted": found.is_trusted,
        "doubts": found.doubts,
        "remarks": found.remarks,
    }


def print_evaluation(out: "Console", outcomes: "Sequence[Outcome]") -> None:
    """Print a line per outcome, the worst case at each budget, and the verdict with its reasons."""
    from rich.text import Text

    from ..storage.evaluation_verdict import evaluation_verdict

    _print_outcomes(out, outcomes)
    found = evaluation_verdict(outcomes)
    if found is None:
        return
    for norm in dict.fromkeys(outcome.norm for outcome in found.worst_case):
        left = [outcome for outcome in found.worst_case if outcome.norm == norm]
        points = ", ".join(f"{outcome.accuracy:.3f} at {outcome.epsilon:.4g}" for outcome in left)
        out.print(f"worst case ({norm}): {points}; of {left[-1].samples} samples", markup=False)
    out.print(Text("verdict: ").append(found.words, style=_STYLES[found.is_trusted]).append(_reason(found)))
    for doubt in found.doubts:
        size = "" if isnan(doubt.value) else f" {doubt.value:.3g}"
        out.print(f"  {doubt.name}{size}: {doubt.explanation}", markup=False)
    for remark in found.remarks:
        out.print(f"  note: {remark}", markup=False)


def _reason(found: "EvaluationVerdict") -> str:
    if found.is_trusted is None:
        return ", since the evaluation did not come to its end"
    return "; no sign of hidden gradients" if found.is_trusted else ""


def evaluation_cell(outcomes: "Sequence[Outcome]") -> "Text":
    """Return the verdict in the list of runs: the least accuracy, or not to trust it."""
    from rich.text import Text

    from ..storage.evaluation_verdict import evaluation_verdict

    found = evaluation_verdict(outcomes)
    if found is None:
        return Text(f"{len(outcomes)} outcomes")
    last = found.worst_case[-1]
    left = f"{last.accuracy:.3f} left at {last.epsilon:.4g}"
    return Text(left if found.is_trusted else f"{left}, {found.words}", style=_STYLES[found.is_trusted])


def _print_outcomes(out: "Console", outcomes: "Sequence[Outcome]") -> None:
    """Print a line per outcome of an evaluation; a number that has no meaning for it is left out."""
    listing = table(
        "outcomes", "attack", "norm", "epsilon", "accuracy", "samples", right=("epsilon", "accuracy", "samples")
    )
    for outcome in outcomes:
        accuracy = "" if isnan(outcome.accuracy) else f"{outcome.accuracy:.3f}"
        samples = str(outcome.samples) if outcome.samples else ""
        add_row(listing, outcome.attack, outcome.norm, f"{outcome.epsilon:.4g}", accuracy, samples)
    if listing.row_count:
        out.print(listing)
