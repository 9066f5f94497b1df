"""Every reader gets damaged and odd inputs: each is read or refused, and nothing lasts longer than two seconds."""

from typing import Any, Final

from tests.fuzzing.fuzz import LIMIT_S, fuzz
from tests.fuzzing.readers import READERS

from ..rows import at_most

#: Inputs for each reader in the whole campaign.
INPUTS: Final = 10_000


def measure(quick: bool, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the figures by reader, and the first failing inputs of each."""
    rows, wrong = [], []
    for name, reader in READERS.items():
        report = fuzz(reader, INPUTS // 100 if quick else INPUTS, seed)
        case = f"{report.inputs} inputs of {name}"
        rows += [
            at_most(0, case, "failures", len(report.failures), "inputs"),
            at_most(None, case, "refused", report.refused, "inputs"),
            at_most(LIMIT_S, case, "slowest", report.slowest_s, "s"),
        ]
        wrong += [report.words()] if report.failures else []
    return rows, wrong
