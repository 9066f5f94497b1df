"""A watchpoint: one condition, how much it matters, and what the training does when it is met."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...storage import SEVERITIES, Json, Severity, nearest
from ...storage.conditions import Condition, parse_condition
from ..errors import InvalidRule


@dataclass(frozen=True, slots=True)
class Watchpoint:
    """A condition with a name.

    Args:
        name: What its findings are called; by default the condition's line.
        pauses: Whether the training waits at the end of the step that meets it.
    """

    name: str
    condition: Condition
    severity: Severity = "warning"
    pauses: bool = False


def watchpoints_of(config: Mapping[str, Json]) -> tuple[Watchpoint, ...]:
    """The watchpoints that a run's configuration names under `watchpoints`: lines, or mappings around one.

    Raises:
        InvalidName: A condition is not understood.
        InvalidRule: An entry is no watchpoint, or two have one name.
    """
    entries = config.get("watchpoints") or ()
    if not isinstance(entries, list | tuple):
        raise InvalidRule(f"watchpoints must be a list of conditions, got {type(entries).__name__}")
    found = [_watchpoint(entry) for entry in entries]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRule(f"watchpoint {name!r} is there twice; give one of them a name of its own")
    return tuple(found)


def _watchpoint(entry: Json) -> Watchpoint:
    if isinstance(entry, str):
        condition = parse_condition(entry)
        return Watchpoint(condition.text, condition)
    if not isinstance(entry, Mapping) or "when" not in entry:
        raise InvalidRule(f"a watchpoint must be a condition or a mapping with `when`, got {entry!r}")
    condition = parse_condition(str(entry["when"]))
    severity = str(entry.get("severity", "warning"))
    if severity not in SEVERITIES:
        raise InvalidRule(
            f"watchpoint {condition.text!r} has severity {severity!r}{nearest(severity, SEVERITIES)}; "
            f"severities are {', '.join(SEVERITIES)}"
        )
    return Watchpoint(str(entry.get("name") or condition.text), condition, severity, bool(entry.get("pause", False)))
