"""What an executable check found: a claim about this run, and the counterexample if the claim is broken."""

from dataclasses import dataclass, field, replace
from typing import Literal

from ...storage.records import Json

#: `open`: the check could not decide; the counterexample then says why.
Outcome = Literal["held", "broken", "open"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One claim that was tried on this run.

    Args:
        check: Name of the check, with underscores.
        outcome: Whether the claim holds.
        claim: The claim, a sentence that can be true or false.
        counterexample: What contradicts it, or why it could not be decided; empty where it holds.
        numbers: Measured values.
        subject: The input, column or parameter that the claim is about; empty for the whole model.
        where: The module of the model that is at fault; empty for the model itself, or where that is not known.
    """

    check: str
    outcome: Outcome
    claim: str
    counterexample: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    subject: str = ""
    where: str = ""

    def at(self, where: str) -> "CheckResult":
        """Return the result with the module that is at fault."""
        return replace(self, where=where)

    def data(self) -> dict[str, Json]:
        """Return the fields of the event `check`."""
        numbers: dict[str, Json] = dict(self.numbers)
        return {
            "check": self.check,
            "outcome": self.outcome,
            "claim": self.claim,
            "counterexample": self.counterexample,
            "numbers": numbers,
            "subject": self.subject,
            **({"where": self.where} if self.where else {}),
        }


def held(check: str, claim: str, *, subject: str = "", **numbers: float) -> CheckResult:
    """Return the result of a claim that holds."""
    return CheckResult(check, "held", claim, "", numbers, subject)


def broken(check: str, claim: str, counterexample: str, *, subject: str = "", **numbers: float) -> CheckResult:
    """Return the result of a claim that is contradicted."""
    return CheckResult(check, "broken", claim, counterexample, numbers, subject)


def undecided(check: str, claim: str, reason: str, *, subject: str = "", **numbers: float) -> CheckResult:
    """Return the result of a claim that could not be decided."""
    return CheckResult(check, "open", claim, reason, numbers, subject)
