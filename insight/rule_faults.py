"""What rules raised: a place of ours that fails is told of once, however many rules call it."""

import logging
import traceback

from ..storage import Event

_log = logging.getLogger(__name__)


class RuleFaults:
    """The rules of one run that raised.

    Attributes:
        events: One for each rule that was switched off.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._told: set[tuple[str, str, int]] = set()

    def tell(self, rule: str, what: str, error: BaseException) -> bool:
        """Log what happened to the rule, as a warning where this place raises for the first time; return whether so."""
        place = _place(error)
        is_first = place not in self._told
        self._told.add(place)
        _log.log(logging.WARNING if is_first else logging.DEBUG, "rule %s %s", rule, what, exc_info=error)
        return is_first

    def switch_off(self, rule: str, step: int, error: BaseException) -> bool:
        """Note that the rule is switched off; return whether this place raises for the first time."""
        data = {"error": f"failed with {type(error).__name__}: {error}"}
        self.events.append(Event("monitor_fault", step, rule, data=data))
        return self.tell(rule, f"failed at step {step} and is switched off", error)


def _place(error: BaseException) -> tuple[str, str, int]:
    """Return the kind of the error, and the innermost line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    innermost = frames[-1] if frames else None
    return type(error).__name__, innermost.filename if innermost else "", (innermost.lineno or 0) if innermost else 0
