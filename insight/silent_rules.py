"""Which rules saw what they need, so that their silence means something, and why the silence of the others does not."""

from collections.abc import Iterable, Mapping

from .rule import Rule

__all__ = ["not_run", "run"]


def run(rules: Iterable[Rule], seen: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the rules that have seen all they need often enough.

    Args:
        seen: Records that carried each need.
    """
    return tuple(rule.name for rule in rules if all(seen.get(need, 0) >= rule.warm_up for need in rule.needs))


def not_run(rules: Iterable[Rule], seen: Mapping[str, int]) -> dict[str, str]:
    """Return why the silence of each other rule means nothing; a rule that only some trainings need is left out.

    Args:
        seen: Records that carried each need.
    """
    reasons = {}
    for rule in rules:
        missing = [need for need in rule.needs if not seen.get(need, 0)]
        short = [need for need in rule.needs if 0 < seen.get(need, 0) < rule.warm_up]
        if missing and rule.is_optional:
            continue
        if missing:
            reasons[rule.name] = f"{' and '.join(missing)} {'was' if len(missing) == 1 else 'were'} never recorded"
        elif short:
            reasons[rule.name] = f"{recorded_times(short[0], seen[short[0]])}, {rule.warm_up} are needed"
    return reasons


def recorded_times(need: str, count: int) -> str:
    """Return in words how often what a rule needs was recorded; `record` needs any."""
    times = "once" if count == 1 else f"{count} times"
    return f"a step was recorded {times}" if need == "record" else f"{need} was recorded {times}"
