"""The verdict that `mindscope show` gives of a stored run: of its findings, and of what can be read at all."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from ..storage import Finding, Run, Store


def stored_verdict(
    store: "Store", run: "Run", findings: "Sequence[Finding]", damage: "Sequence[str]"
) -> dict[str, object]:
    """Return the verdict of the stored findings, for programs and for people; nothing for what is no training."""
    from ..insight import judge, stored_facts

    told: dict[str, object] = {"damage": list(damage)} if damage else {}
    if run.kind != "training":
        return told
    judged = judge(findings, stored_facts(store, run.id))
    if damage and judged.verdict != "unhealthy":
        return {"verdict": "undetermined", "verdict_words": "undetermined", **told}
    return {"verdict": judged.verdict, "verdict_words": judged.words, **told}


def print_verdict(out: "Console", run: "Run", verdict: "Mapping[str, object]") -> None:
    """Print the verdict, and what of the run cannot be read."""
    damage = verdict.get("damage", [])
    for line in damage if isinstance(damage, list) else ():
        out.print(f"DAMAGED: {line}; `mindscope verify --repair` mends what it can", markup=False)
    if "verdict" in verdict:
        out.print(f"verdict: {verdict['verdict_words']}; mindscope diagnose {run.id} has the reasons", markup=False)
