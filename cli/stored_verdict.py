"""The verdict that `mindscope show` gives of a stored run: of its findings, and of what can be read at all."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from ..storage import Run, Store


def stored_verdict(store: "Store", run: "Run", damage: "Sequence[str]" = ()) -> dict[str, object]:
    """Return the verdict and the first cause of a stored run, as `diagnose` words it; nothing for an evaluation."""
    from ..insight import stored_verdict as verdict_of
    from ..storage import StoreDamaged

    told: dict[str, object] = {"damage": list(damage)} if damage else {}
    if run.kind == "evaluation":
        return told
    try:
        found = verdict_of(store, run)
    except StoreDamaged as error:
        return {"verdict": "undetermined", "verdict_words": "undetermined", "first_cause": "", "damage": [str(error)]}
    cause = next((root.cause for root in found.root_causes), "")
    if damage and found.verdict != "unhealthy":
        return {"verdict": "undetermined", "verdict_words": "undetermined", "first_cause": cause, **told}
    return {"verdict": found.verdict, "verdict_words": found.verdict_words, "first_cause": cause, **told}


def print_verdict(out: "Console", run: "Run", verdict: "Mapping[str, object]") -> None:
    """Print the verdict, and what of the run cannot be read."""
    damage = verdict.get("damage", [])
    for line in damage if isinstance(damage, list) else ():
        out.print(f"DAMAGED: {line}; `mindscope verify --repair` mends what it can", markup=False)
    if "verdict" in verdict:
        out.print(f"verdict: {verdict['verdict_words']}; mindscope diagnose {run.id} has the reasons", markup=False)
