"""Remembers since when checks have contradicted a claim, so that a later counterexample is no second finding."""

from ...storage import Event, StepRecord
from ..event_fields import number

__all__ = ["BrokenClaims"]

_Claim = tuple[str, str, str]


class BrokenClaims:
    """The claims that the newest look of their check contradicted, with all looks since the claim held last."""

    def __init__(self) -> None:
        self._looks: dict[_Claim, list[tuple[float, int]]] = {}

    def learn(self, record: StepRecord) -> None:
        """Take the results of checks in this record."""
        for event in record.events:
            if event.kind != "check":
                continue
            if event.data.get("outcome") == "broken":
                self._looks.setdefault(_claim(event), []).append((number(event, "occasion"), event.step))
            elif event.data.get("outcome") == "held":
                self._looks.pop(_claim(event), None)

    def since(self, event: Event, occasion: int) -> int:
        """Return the first step at which the claim was contradicted, and has not held since.

        Args:
            event: A counterexample.
            occasion: The first occasion that counts.
        """
        looks = self._looks.get(_claim(event), [])
        return next((step for number_of, step in looks if number_of >= occasion), event.step)


def _claim(event: Event) -> _Claim:
    return str(event.data.get("check")), event.site, str(event.data.get("subject"))
